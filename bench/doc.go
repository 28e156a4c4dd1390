// Package bench compares unthrottle with go.uber.org/automaxprocs, side by side and in the same run: what both do
// (movetest), what a call costs (the benchmarks here) and what importing them costs (startup). Below it the command is
// compared with its peers (load, emulate, runcost), and a program with itself (heapfloor). README.md has the commands
// and the figures. vmtest boots other kernels for the command and the library. Nothing here is shipped.
package bench
