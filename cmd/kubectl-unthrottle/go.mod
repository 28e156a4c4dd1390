module github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle

go 1.26.0

require (
	github.com/klauspost/compress v1.20.3 // layers of images in zstd
	github.com/spf13/cobra v1.10.2
	github.com/unthrottle/unthrottle v0.0.0
	github.com/unthrottle/unthrottle/cmd v0.0.0
	go.yaml.in/yaml/v3 v3.0.6
)

// For tests only: tables, a real API server, and the API server's and kubectl's own readers to compare with.
require (
	github.com/rogpeppe/go-internal v1.16.0
	github.com/unthrottle/unthrottle/clustertest v0.0.0
	k8s.io/apimachinery v0.36.3
	sigs.k8s.io/yaml v1.6.0
)

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0 // indirect
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	github.com/chavacava/garif v0.1.0 // indirect
	github.com/fxamacker/cbor/v2 v2.9.0 // indirect
	github.com/google/pprof v0.0.0-20260906184651-6331bc6350fe // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/jstemmer/go-junit-report/v2 v2.1.0 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	go.yaml.in/yaml/v2 v2.4.3 // indirect
	golang.org/x/arch v0.32.0 // indirect
	golang.org/x/exp v0.0.0-20261014143641-f0251eb4aa3e // indirect
	golang.org/x/perf v0.0.0-20260908200009-22c9c6c9d4da // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/term v0.47.0 // indirect
	golang.org/x/tools v0.52.0 // indirect
	gopkg.in/inf.v0 v0.9.1 // indirect
	sigs.k8s.io/json v0.0.0-20250730193827-2d320260d730 // indirect
)

replace (
	github.com/unthrottle/unthrottle => ../..
	github.com/unthrottle/unthrottle/clustertest => ../../clustertest
	github.com/unthrottle/unthrottle/cmd => ..
)
