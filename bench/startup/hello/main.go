// Command hello is the smallest web server there is: it starts to listen and exits at once. It is built five times, with
// build tags that add imports; see package startup.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if len(os.Args) > 1 { // so that the linker can't leave the server out
		http.Serve(l, nil)
	}
}
