module github.com/unthrottle/unthrottle/clustertest

go 1.26.0
