// Package hostile answers: what may somebody put in the way of a tool that looks at others' programs and asks others' servers? It has
// the things themselves, built by code, each with what must come out of it: file trees, processes, programs, answers of servers.
// Nothing but tests uses it, and it checks nothing itself.
package hostile
