// This library is Go in a program of another language.
package main

import "C"

import "runtime"

//export SetProcs
func SetProcs(n C.int) C.int {
	runtime.GOMAXPROCS(int(n))
	return C.int(runtime.GOMAXPROCS(0))
}

func main() {}
