// Package limit is a wing: a folder of packages, with no code of its own. Its packages answer: how does a program run under a CPU or
// memory limit, and what did the limit do to it? In go a limit and a command; out come what the kernel counted, and the output. It
// compares nothing: wing study decides what to run and what the figures mean.
//
//	emulate   a limit made of signals, where no cgroup can be
//	runner    a command under a limit, born in its group
//	service   a server under a limit: started, ready, ended
//	sidecar   what runs inside the pods of a study
//	workload  the programs that are measured: built-in ones, and the user's source in several builds
package limit
