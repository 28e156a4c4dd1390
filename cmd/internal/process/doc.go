// Package process is a wing: a folder of packages, with no code of its own. Its packages answer: what runs on this machine, and what holds
// it? In go /proc, cgroups, and the files and memory of programs; out come facts about a process. It judges nothing and changes nothing:
// wing diagnose says what is wrong.
//
//	executable  what an ELF file says about the Go program in it, within bounds
//	procs       what a process is and how it was started
//	golive      GOMAXPROCS and the like, read from a running program's memory
//	goself      what a Go program says about itself: gctrace lines and metrics pages
//	choice      which GOMAXPROCS each known rule would choose
//	host        all Go programs of a system, what limits them and how they fare
//	podpath     which pod and container a cgroup belongs to
//	hostile     trees, processes and answers made to do harm, for the tests
package process
