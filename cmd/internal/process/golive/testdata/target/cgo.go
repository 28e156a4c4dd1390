//go:build usecgo

package main

// static int answer(void) { return 42; }
import "C"

func init() {
	if C.answer() != 42 {
		panic("C does not work")
	}
}
