package runner

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asServer makes the test binary a server that answers with its name, at an address.
const asServer = "NETNS_TEST_SERVER"

func TestMain(m *testing.M) {
	if address := os.Getenv(asServer); address != "" {
		l, err := net.Listen("tcp", address)
		if err != nil {
			panic(err)
		}
		io.WriteString(os.Stdout, l.Addr().String()+"\n")
		for {
			c, err := l.Accept()
			if err != nil {
				panic(err)
			}
			io.WriteString(c, os.Args[1])
			c.Close()
		}
	}
	os.Exit(m.Run())
}

// server starts a server in a network, and returns where it listens.
func server(t *testing.T, n *Network, name, address string) string {
	cmd := exec.Command("/proc/self/exe", name)
	cmd.Env = append(os.Environ(), asServer+"="+address)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := n.Enter(); err != nil {
			started <- err
			return
		}
		started <- cmd.Start()
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// TestNets: servers listen at the same address in our network and in two others, and each is reached where it is.
func TestNets(t *testing.T) {
	var nets []*Network
	for range 2 {
		n, err := NewNetwork()
		if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.ENOSYS) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		nets = append(nets, n)
	}
	var none *Network
	address := server(t, none, "ours", "127.0.0.1:0")
	server(t, nets[0], "first", address)
	server(t, nets[1], "second", address)
	_, port, _ := net.SplitHostPort(address)
	for range 20 { // threads that were there don't come back
		for n, want := range map[*Network]string{none: "ours", nets[0]: "first", nets[1]: "second"} {
			for _, at := range []string{address, "localhost:" + port} {
				c, err := n.Dial(t.Context(), "tcp", at)
				if err != nil {
					t.Fatalf("%s at %s: %v", want, at, err)
				}
				c.SetDeadline(time.Now().Add(time.Minute))
				if got, err := io.ReadAll(c); string(got) != want || err != nil {
					t.Errorf("%s answered where %s is: %v", got, want, err)
				}
				c.Close()
			}
		}
	}
	if err := none.Close(); err != nil {
		t.Error(err)
	}
}
