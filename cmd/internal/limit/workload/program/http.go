package program

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
)

// runHTTP measures a client and a server in one process, over the loopback interface. The number of clients is fixed, so
// that every setting has the same work before it. They keep their connections, and each sends its next request when the
// last is answered: this is throughput, not the latency of requests that come when they like.
func runHTTP(o options) (Result, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return Result{}, fmt.Errorf("starting the server: %w", err)
	}
	server := &http.Server{Handler: http.HandlerFunc(square)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Close()
		<-served
	}()
	transport := &http.Transport{MaxIdleConnsPerHost: o.size} // no proxy, whatever the environment says
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}

	base := "http://" + listener.Addr().String() + "/?n="
	r, err := measure(o.size, o.window, func(_ int, i int64) error { return askSquare(client, base, i%1000) })
	if err != nil {
		return r, err
	}
	r.Metrics["req/s"] = float64(r.Ops) / r.Seconds
	return r, nil
}

func square(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	io.WriteString(w, strconv.FormatInt(n*n, 10))
}

func askSquare(client *http.Client, base string, n int64) error {
	resp, err := client.Get(base + strconv.FormatInt(n, 10))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("reading an answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK || string(body) != strconv.FormatInt(n*n, 10) {
		return fmt.Errorf("the square of %d is %q (status %d)", n, body, resp.StatusCode)
	}
	return nil
}
