module github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle

go 1.26.0

require (
	github.com/klauspost/compress v1.20.3 // layers of images in zstd
	github.com/unthrottle/unthrottle v0.0.0
	github.com/unthrottle/unthrottle/cmd v0.0.0
	go.yaml.in/yaml/v3 v3.0.6
)

// For tests only: tables, and the API server's and kubectl's own readers to compare with.
require (
	github.com/rogpeppe/go-internal v1.16.0
	k8s.io/apimachinery v0.36.3
	sigs.k8s.io/yaml v1.6.0
)

require (
	github.com/fxamacker/cbor/v2 v2.9.0 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	go.yaml.in/yaml/v2 v2.4.3 // indirect
	golang.org/x/tools v0.52.0 // indirect
	gopkg.in/inf.v0 v0.9.1 // indirect
	sigs.k8s.io/json v0.0.0-20250730193827-2d320260d730 // indirect
)

replace (
	github.com/unthrottle/unthrottle => ../..
	github.com/unthrottle/unthrottle/cmd => ..
)
