module github.com/unthrottle/unthrottle/vmtest

go 1.26.0

require github.com/unthrottle/unthrottle v0.0.0

replace github.com/unthrottle/unthrottle => ../
