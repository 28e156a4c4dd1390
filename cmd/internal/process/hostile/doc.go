// Package hostile answers: what may someone put in the way of a tool that looks at other users' programs and asks other people's servers?
// It has the things themselves, built by code, each with what must come out of it: file trees, processes, programs, answers of servers.
// Nothing but tests uses it, and it checks nothing itself.
package hostile
