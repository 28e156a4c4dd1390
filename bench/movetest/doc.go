// Package movetest answers: what changes for a program that moves from go.uber.org/automaxprocs/maxprocs to
// github.com/unthrottle/unthrottle/maxprocs by changing the import path and nothing else? Its test builds package program
// with each, runs both under real conditions and compares what they do. Where they must differ, the case says why.
package movetest
