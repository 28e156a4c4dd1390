// Subject is the program that the guest tests explain. It is built several times:
// with several versions of Go, go lines and imports. See vmtest.Subjects.
//
// At its start, and for each line that it reads, it prints GOMAXPROCS and the
// version of Go as a line of JSON. The line "burn" makes it use CPU time from then
// on. It ends with its input.
package main

import (
	"bufio"
	"os"
	"runtime"
	"strconv"
)

func main() {
	report()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if in.Text() == "burn" {
			go burn()
			go burn()
		}
		report()
	}
}

func report() {
	os.Stdout.WriteString(`{"gomaxprocs":` + strconv.Itoa(runtime.GOMAXPROCS(0)) +
		`,"version":"` + runtime.Version() + "\"}\n")
}

func burn() {
	for i := 0; ; i++ {
	}
}
