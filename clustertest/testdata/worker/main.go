// Command worker is what the containers of the tests run. It says hello, serves what it sees of itself on PORT, and keeps BUSY
// threads busy; "worker once" says hello and ends.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

func main() {
	fmt.Println("hello")
	if len(os.Args) > 1 && os.Args[1] == "once" {
		return
	}
	busy, _ := strconv.Atoi(os.Getenv("BUSY"))
	for range busy {
		go func() {
			for {
			}
		}()
	}
	if port := os.Getenv("PORT"); port != "" {
		listener, err := net.Listen("tcp", ":"+port)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		go http.Serve(listener, http.HandlerFunc(describe))
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	<-end
}

func describe(w http.ResponseWriter, _ *http.Request) {
	host, _ := os.Hostname()
	processes, _ := filepath.Glob("/proc/[0-9]*")
	groups, _ := os.ReadFile("/proc/self/cgroup")
	json.NewEncoder(w).Encode(map[string]any{
		"host": host, "gomaxprocs": runtime.GOMAXPROCS(0), "processes": len(processes), "groups": string(groups),
	})
}
