// Package command is a wing: a folder of packages, with no code of its own. This is the highest wing. Its packages answer: what does the
// command line ask for, and where do its results go? In go arguments; out come calls of the other wings, and files. It decides nothing
// about programs or limits.
//
//	verb     a command line with verbs, and where results go
//	conduct  what measuring verbs share: flags, how a study begins, is kept and continued, and what one sees of it
//	bug      what a report of a wrong answer needs
//	demo     the server of demo, which shows what a limit does to it
//	cli      the verbs: a file each
package command
