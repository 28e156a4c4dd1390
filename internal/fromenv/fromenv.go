// Package fromenv answers: how does package auto reach what package unthrottle does not export? unthrottle puts a function
// here when it is initialised, and auto, which imports it and so comes later, calls it.
//
// The exported Set with a parsed policy would do, but it can log, and the words for that make a program 14 KB larger.
package fromenv

// Set is unthrottle.Set with the policy that the environment asks for, silent.
var Set func()
