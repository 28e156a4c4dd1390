// Command worker is what the containers of the tests run. It says hello, serves what it sees of itself on PORT, and keeps BUSY
// threads busy; "worker once" says hello and ends.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
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
		http.HandleFunc("/", describe)
		http.HandleFunc("/cluster", askServer)
		go http.Serve(listener, nil)
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	<-end
}

func describe(w http.ResponseWriter, _ *http.Request) {
	host, _ := os.Hostname()
	processes, _ := filepath.Glob("/proc/[0-9]*")
	first, _ := os.ReadFile("/proc/1/comm")
	groups, _ := os.ReadFile("/proc/self/cgroup")
	json.NewEncoder(w).Encode(map[string]any{
		"host": host, "gomaxprocs": runtime.GOMAXPROCS(0), "processes": len(processes), "first": strings.TrimSpace(string(first)),
		"groups": string(groups),
	})
}

// askServer asks the API server who this pod is.
func askServer(w http.ResponseWriter, _ *http.Request) {
	const dir = "/var/run/secrets/kubernetes.io/serviceaccount/"
	ca, _ := os.ReadFile(dir + "ca.crt")
	token, _ := os.ReadFile(dir + "token")
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(ca)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}}}
	address := net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	request, _ := http.NewRequest(http.MethodPost, "https://"+address+"/apis/authentication.k8s.io/v1/selfsubjectreviews",
		strings.NewReader(`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`))
	request.Header.Set("Authorization", "Bearer "+string(token))
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		fmt.Fprintln(w, err)
		return
	}
	defer response.Body.Close()
	io.Copy(w, response.Body)
}
