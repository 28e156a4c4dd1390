// Package diagnose is a wing: a folder of packages, with no code of its own. Its packages answer: when could a program not run, and what
// is wrong with it? In go timelines, traces, profiles and facts of wing process; out come standstills, their cause, and findings. It
// measures only what already runs. Every finding of a running process comes from a rule in package rule.
//
//	watcher      how this command watches from a process of its own
//	freeze       whether standstills have the rhythm of a CPU quota
//	heartbeat    when nothing in a cgroup could run
//	exectrace    when a program stood still, by its execution trace
//	disturbance  when something else than what is measured had the machine
//	cpuprofile   which part of the CPU time depends on GOMAXPROCS
//	attach       how to get a trace or a profile from a program
//	rule         what is wrong with a program and its limit, and how to fix it: a file a rule
package diagnose
