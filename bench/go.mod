module github.com/unthrottle/unthrottle/bench

go 1.26.0

require (
	github.com/KimMachineGun/automemlimit v1.0.1
	github.com/unthrottle/unthrottle v0.0.0
	go.uber.org/automaxprocs v1.6.0
	golang.org/x/perf v0.0.0-20260908200009-22c9c6c9d4da
)

require (
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	github.com/pbnjay/memory v0.0.0-20210728143218-7b4eea64cf58 // indirect
)

replace github.com/unthrottle/unthrottle => ../
