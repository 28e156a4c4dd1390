module github.com/unthrottle/unthrottle/bench

go 1.26.0

require (
	github.com/unthrottle/unthrottle v0.0.0
	go.uber.org/automaxprocs v1.6.0
)

replace github.com/unthrottle/unthrottle => ../
