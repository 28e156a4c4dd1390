package cli

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
)

// A flooded program runs in a memory cgroup with the limit of its container.
type flooded struct {
	t     *testing.T
	group string
	ended chan error
	at    []string // what its log has of its addresses
}

// flood starts the command with the memory of a container. Its addresses are found in its log by a pattern.
func flood(t *testing.T, memory int64, limit string, addresses *regexp.Regexp, args ...string) *flooded {
	t.Helper()
	group := filepath.Join("/sys/fs/cgroup/memory", "unthrottle-flood-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		if os.Getenv("UNTHROTTLE_REQUIRE_CGROUP") == "1" {
			t.Fatal(err)
		}
		t.Skipf("no memory cgroup (it takes root and cgroup v1): %v", err)
	}
	t.Cleanup(func() {
		for range 1000 {
			if err := syscall.Rmdir(group); err == nil || errors.Is(err, os.ErrNotExist) {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("%s is left", group)
	})
	if err := os.WriteFile(filepath.Join(group, "memory.limit_in_bytes"), []byte(strconv.FormatInt(memory, 10)), 0); err != nil {
		t.Fatal(err)
	}
	program := clustertest.BuildGo(t, "../..")
	cmd := exec.Command("/bin/sh", append([]string{"-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, group, program}, args...)...)
	cmd.Env = append(os.Environ(), "GOMEMLIMIT="+limit)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f := &flooded{t: t, group: group, ended: make(chan error, 1)}
	found := make(chan []string, 1)
	go func() {
		for s := bufio.NewScanner(log); s.Scan(); {
			if m := addresses.FindStringSubmatch(s.Text()); m != nil {
				found <- m
			}
		}
		f.ended <- cmd.Wait()
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-f.ended
	})
	select {
	case f.at = <-found:
	case err := <-f.ended:
		f.ended <- err
		t.Fatalf("it has ended: %v", err)
	}
	return f
}

// alive says that it runs, and what it took.
func (f *flooded) alive(what string) {
	f.t.Helper()
	select {
	case err := <-f.ended:
		f.ended <- err
		f.t.Fatalf("%s: it has ended: %v", what, err)
	default:
	}
	most, _ := os.ReadFile(filepath.Join(f.group, "memory.max_usage_in_bytes"))
	bytes, _ := strconv.ParseInt(strings.TrimSpace(string(most)), 10, 64)
	f.t.Logf("%s: at most %d MiB so far", what, bytes>>20)
}

// connections opens n, from some addresses of this machine in turn, as fast as it can, and sends each the beginning of a request. They
// stay open until the test ends, unless the server closes them.
func connections(t *testing.T, n, addresses int, to, text string, config *tls.Config) {
	t.Helper()
	var all sync.WaitGroup
	turns := make(chan struct{}, 200)
	for i := range n {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			d := net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%addresses))}}
			c, err := d.Dial("tcp", to)
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			c.SetDeadline(time.Now().Add(10 * time.Second))
			if config != nil {
				c = tls.Client(c, config)
			}
			io.WriteString(c, text)
			c.SetDeadline(time.Time{})
		})
	}
	all.Wait()
}

// answers asks as a well-behaved client does, from an address of its own, while others flood.
func answers(t *testing.T, url string, body string) {
	t.Helper()
	c := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	var r *http.Response
	var err error
	if body == "" {
		r, err = c.Get(url)
	} else {
		r, err = c.Post(url, "application/json", strings.NewReader(body))
	}
	if err != nil {
		t.Errorf("one who behaves well: %v", err)
		return
	}
	defer r.Body.Close()
	if text, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("%s: %d %.200s, %v", url, r.StatusCode, text, err)
	}
}

// TestAgentFlooded has the DaemonSet's 128 MiB.
func TestAgentFlooded(t *testing.T) {
	f := flood(t, 128<<20, "100MiB", regexp.MustCompile(`listens=(\S+) probes=(\S+)`),
		"agent", "--pods=none", "--node=a", "--insecure", "--interval=1h", "--for=100ms", "--listen=127.0.0.1:0", "--probes=127.0.0.1:0")
	for _, addresses := range []int{1, 40} {
		for range 2 {
			connections(t, 4000, addresses, f.at[1], "GET /metrics HTTP/1.1\r\nHost: a\r\nX-A: "+strings.Repeat("a", 15_900), nil)
			answers(t, "http://"+f.at[1]+"/metrics", "")
			answers(t, "http://"+f.at[2]+"/healthz", "")
			f.alive(fmt.Sprintf("4000 connections of %d addresses", addresses))
		}
	}
}

// TestWebhookFlooded has the Deployment's 256 MiB.
func TestWebhookFlooded(t *testing.T) {
	cert, key := ownCertificate(t)
	f := flood(t, 256<<20, "200MiB", regexp.MustCompile(`reviews=https://(\S+) operations=http://(\S+)`),
		"webhook", "--mode=fix", "--listen=127.0.0.1:0", "--operations=127.0.0.1:0", "--cert-file="+cert, "--key-file="+key)
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":{"version":"v1","kind":"Pod"},"operation":"CREATE",` +
		`"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a","env":[{"name":"GOMAXPROCS","value":"9"}]}]}}}}`
	insecure := &tls.Config{InsecureSkipVerify: true}
	head := "POST /mutate HTTP/1.1\r\nHost: a\r\nX-A: " + strings.Repeat("a", 63_000)
	body := "POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n" + strings.Repeat(" ", 60_000)
	for _, addresses := range []int{1, 40} {
		for _, text := range []string{head, body} {
			connections(t, 1740, addresses, f.at[1], text, insecure)
			answers(t, "https://"+f.at[1]+"/mutate", review)
			connections(t, 2200, addresses, f.at[2], text, nil)
			answers(t, "http://"+f.at[2]+"/healthz", "")
			answers(t, "http://"+f.at[2]+"/metrics", "")
			f.alive(fmt.Sprintf("1740 connections of %d addresses", addresses))
		}
	}
}

// ownCertificate writes a certificate for a test, and its key.
func ownCertificate(t *testing.T) (cert, key string) {
	t.Helper()
	made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, made.Public(), made)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(made)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
