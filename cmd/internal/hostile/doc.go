// Package hostile answers: what may somebody put in the way of a tool that looks at others' programs and asks others' servers? It has
// the things themselves, built by code, for the tests of all that meets them. It is used by tests only, and checks nothing itself.
package hostile
