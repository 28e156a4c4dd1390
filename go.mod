module github.com/unthrottle/unthrottle

go 1.21
