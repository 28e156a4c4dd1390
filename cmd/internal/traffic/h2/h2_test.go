package h2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"
)

// greet opens a connection.
func greet(t *testing.T, address string) *Conn {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	c := New(nc)
	if err := c.Greet(time.Minute); err != nil {
		t.Fatal(err)
	}
	return c
}

func post(address, path string, body []byte) *Request {
	return &Request{Body: body, Header: [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", address}, {"content-type", "application/grpc"}, {"te", "trailers"}}}
}

// serve is a server of net/http.
func serve(t *testing.T, config *http.HTTP2Config, handler http.HandlerFunc) (address string) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.Protocols, s.Config.HTTP2 = new(http.Protocols), config
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// TestCalls: what is sent arrives, regardless of its size, and what comes of it is reported once.
func TestCalls(t *testing.T) {
	address := serve(t, &http.HTTP2Config{MaxReceiveBufferPerStream: 20_000, MaxReceiveBufferPerConnection: 70_000}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/grpc")
		w.WriteHeader(http.StatusEarlyHints)
		status, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		w.WriteHeader(status)
		w.Write(bytes.Repeat([]byte("b"), 2*len(body)))
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(len(body)))
	})
	c := greet(t, address)
	ended := make(chan struct{})
	go func() { c.Run(); close(ended) }()
	sizes := []int{0, 1, 16 << 10, 16<<10 + 1, 65_535, 65_536, 3_000_000}
	var wg sync.WaitGroup
	for i := range 40 {
		size, status := sizes[i%len(sizes)], 200+i
		wg.Add(1)
		call := &Call{Request: post(address, "/"+strconv.Itoa(status), make([]byte, size)), Timeout: time.Minute}
		call.Done = func(a Answer) {
			if a.Err != nil || a.Status != status || a.Bytes != int64(2*size) && status != 204 && status != 205 || a.GRPCStatus != strconv.Itoa(size) || a.ContentType != "application/grpc" {
				t.Errorf("%d bytes and status %d: %+v", size, status, a)
			}
			wg.Done()
		}
		if status == 204 || status == 205 || status == 304 { // have no body
			wg.Done()
			continue
		}
		if !c.Send(call) {
			t.Fatal("there is no room")
		}
	}
	wg.Wait()
	c.nc.Close()
	<-ended
	if c.Room() || !c.Closing() || c.Send(&Call{Request: post(address, "/200", nil)}) {
		t.Error("something can be sent over a connection that is gone")
	}
}

// TestRoom: no more calls are open than the server wants, and the end of one makes room.
func TestRoom(t *testing.T) {
	release := make(chan struct{})
	address := serve(t, &http.HTTP2Config{MaxConcurrentStreams: 3}, func(http.ResponseWriter, *http.Request) { <-release })
	c := greet(t, address)
	go c.Run()
	done := make(chan Answer, 9)
	send := func() bool {
		return c.Send(&Call{Request: post(address, "/", nil), Done: func(a Answer) { done <- a }})
	}
	for i := range 4 {
		if got := send(); got != (i < 3) {
			t.Errorf("call %d: %v", i, got)
		}
	}
	close(release)
	for range 3 {
		if a := <-done; a.Err != nil || a.Status != 200 {
			t.Errorf("%+v", a)
		}
	}
	if !send() {
		t.Error("there is no room after all have ended")
	}
	<-done
}

// TestTimeout: the server learns that no one waits, and other calls go on.
func TestTimeout(t *testing.T) {
	gone := make(chan struct{})
	address := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-r.Context().Done()
			close(gone)
		}
	})
	c := greet(t, address)
	go c.Run()
	done := make(chan Answer, 1)
	call := &Call{Request: post(address, "/slow", nil), Timeout: 20 * time.Millisecond, Done: func(a Answer) { done <- a }}
	c.Send(call)
	if a := <-done; !errors.Is(a.Err, ErrTimeout) {
		t.Errorf("%+v", a)
	}
	<-gone
	call.Request, call.Timeout = post(address, "/", nil), time.Minute
	c.Send(call)
	if a := <-done; a.Err != nil {
		t.Errorf("%+v", a)
	}
}

// A script is a server that says what it likes after it has read a call's head.
func script(t testing.TB, says []byte) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				io.ReadFull(nc, make([]byte, len(preface)))
				nc.Write(frameHead(0, frameSettings, 0, 0))
				var head [9]byte
				for head[3] != frameHeaders {
					if _, err := io.ReadFull(nc, head[:]); err != nil {
						return
					}
					io.CopyN(io.Discard, nc, int64(head[0])<<16|int64(head[1])<<8|int64(head[2]))
				}
				nc.Write(says)
				nc.(*net.TCPConn).CloseWrite()
				io.Copy(io.Discard, nc)
			}()
		}
	}()
	return l.Addr().String()
}

// packed are fields as a server sends them.
func packed(fields ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return b.Bytes()
}

func whole(kind, flags byte, id uint32, payload []byte) []byte {
	return append(frameHead(len(payload), kind, flags, id), payload...)
}

// TestScripts: servers that end early, and servers that break the rules.
func TestScripts(t *testing.T) {
	head := packed(":status", "200", "content-type", "application/grpc")
	number := func(n ...uint32) (data []byte) {
		for _, n := range n {
			data = binary.BigEndian.AppendUint32(data, n)
		}
		return data
	}
	const all = flagEndHeaders | flagEndStream
	var bomb []byte // one long field, and then a byte for each time that it comes again
	{
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		f := hpack.HeaderField{Name: "x", Value: strings.Repeat("y", 3000)}
		for range 1000 {
			e.WriteField(f)
		}
		bomb = b.Bytes()
	}
	for _, c := range []struct {
		name string
		says [][]byte
		want string // of the error; "": none
	}{
		{"an answer", [][]byte{whole(frameHeaders, all, 1, head)}, ""},
		{"in pieces, padded", [][]byte{
			whole(frameHeaders, flagPadded|flagPriority, 1, append(append([]byte{2, 0, 0, 0, 0, 0}, head[:3]...), 0, 0)),
			whole(frameContinuation, 0, 1, nil), whole(frameContinuation, flagEndHeaders, 1, head[3:]),
			whole(frameData, flagPadded, 1, []byte{3, 'x', 0, 0, 0}), whole(99, 255, 7, []byte("?")), whole(framePriority, 0, 9, make([]byte, 5)),
			whole(frameHeaders, all, 1, packed("grpc-status", "0")),
		}, ""},
		{"nothing", nil, "EOF"},
		{"half of it", [][]byte{whole(frameHeaders, flagEndHeaders, 1, head)}, "unexpected EOF"},
		{"a reset", [][]byte{whole(frameReset, 0, 1, number(2))}, "the server reset the call: INTERNAL_ERROR"},
		{"an unknown reset", [][]byte{whole(frameReset, 0, 1, number(1<<32-1))}, "the server reset the call: error 4294967295"},
		{"refused", [][]byte{whole(frameReset, 0, 1, number(codeRefused))}, ErrUnprocessed.Error()},
		{"a farewell", [][]byte{whole(frameGoAway, 0, 0, number(0, 0))}, ErrUnprocessed.Error()},
		{"a farewell after it", [][]byte{whole(frameGoAway, 0, 0, number(1, 0)), whole(frameHeaders, all, 1, head)}, ""},
		{"a farewell with a reason", [][]byte{whole(frameGoAway, 0, 0, number(1, 11))}, "the server closes the connection: ENHANCE_YOUR_CALM"},
		{"HTTP/1.1", [][]byte{[]byte("HTTP/1.1 400 Bad Request\r\n\r\n")}, ErrNotHTTP2.Error()},
		{"a frame that is too large", [][]byte{frameHead(maxFrame+1, frameData, 0, 1)}, "a frame is too large"},
		{"cut short", [][]byte{frameHead(100, frameHeaders, 0, 1), head}, "EOF"},
		{"another's answer", [][]byte{whole(frameHeaders, all, 3, head)}, "a request that was not sent"},
		{"another's body", [][]byte{whole(frameData, 0, 3, head)}, "a request that was not sent"},
		{"a push", [][]byte{whole(framePush, flagEndHeaders, 1, head)}, "an unrequested frame"},
		{"an even number", [][]byte{whole(frameHeaders, all, 2, head)}, "a head of nothing"},
		{"a head that breaks off", [][]byte{whole(frameHeaders, 0, 1, head), whole(framePing, 0, 0, make([]byte, 8))}, "a head breaks off"},
		{"a head that never ends", slicesOf(whole(frameHeaders, 0, 1, nil), whole(frameContinuation, 0, 1, nil), maxHead/9+1), "the answer's head has more than"},
		{"a head that grows", [][]byte{whole(frameHeaders, all, 1, bomb)}, "the answer's head has more than"},
		{"bad fields", [][]byte{whole(frameHeaders, all, 1, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})}, "can't be unpacked"},
		{"padding only", [][]byte{whole(frameHeaders, all|flagPadded, 1, []byte{9, 1})}, "padding"},
		{"a body's padding", [][]byte{whole(frameHeaders, flagEndHeaders, 1, head), whole(frameData, flagPadded, 1, []byte{9, 1})}, "padding"},
		{"a body first", [][]byte{whole(frameData, 0, 1, head)}, "a body without a head"},
		{"no status", [][]byte{whole(frameHeaders, all, 1, packed("a", "b"))}, "an answer without a status"},
		{"two heads", [][]byte{whole(frameHeaders, flagEndHeaders, 1, head), whole(frameHeaders, flagEndHeaders, 1, head)}, "trailers before the end"},
		{"a window without end", [][]byte{whole(frameWindow, 0, 0, number(maxWindow)), whole(frameWindow, 0, 0, number(maxWindow))}, "a window's size"},
		{"settings", [][]byte{whole(frameSettings, 0, 0, []byte{0})}, "settings"},
		{"a frame's size", [][]byte{whole(frameSettings, 0, 0, appendSetting(nil, settingFrame, 1))}, "a frame's size"},
		{"a first window", [][]byte{whole(frameSettings, 0, 0, appendSetting(nil, settingWindow, 1<<31))}, "a window's size"},
		{"a ping", [][]byte{whole(framePing, 0, 0, []byte{1})}, "a ping"},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := script(t, bytes.Join(c.says, nil))
			conn := greet(t, address)
			got := make(chan Answer, 2)
			conn.Send(&Call{Request: post(address, "/", nil), Timeout: time.Minute, Done: func(a Answer) { got <- a }})
			conn.Run()
			a := <-got
			if c.want == "" && (a.Err != nil || a.Status != 200) || c.want != "" && (a.Err == nil || !strings.Contains(a.Err.Error(), c.want)) {
				t.Errorf("%+v, want %q", a, c.want)
			}
			if len(got) > 0 {
				t.Error("it is told twice")
			}
		})
	}
}

func slicesOf(first, more []byte, n int) [][]byte { return [][]byte{first, bytes.Repeat(more, n)} }

// TestUnread: a server that asks without end and reads nothing is left.
func TestUnread(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		nc.Write(frameHead(0, frameSettings, 0, 0))
		pings := bytes.Repeat(whole(framePing, 0, 0, make([]byte, 8)), 1000)
		for err == nil {
			_, err = nc.Write(pings)
		}
	}()
	c := greet(t, l.Addr().String())
	got := make(chan Answer, 1)
	c.Send(&Call{Request: post("x", "/", nil), Done: func(a Answer) { got <- a }})
	c.Run()
	if a := <-got; a.Err == nil || !strings.Contains(a.Err.Error(), "does not read the answers") {
		t.Errorf("%+v", a)
	}
}

// TestNotHTTP2: a server of something else is named as such.
func TestNotHTTP2(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	nc, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := New(nc).Greet(time.Minute); !errors.Is(err, ErrNotHTTP2) {
		t.Error(err)
	}
}

// FuzzServer: whatever a server says, each call ends once.
func FuzzServer(f *testing.F) {
	head := packed(":status", "200", "content-type", "application/grpc")
	f.Add(bytes.Join([][]byte{whole(frameHeaders, flagEndHeaders, 1, head), whole(frameData, 0, 1, head), whole(frameHeaders, flagEndHeaders|flagEndStream, 1, head)}, nil))
	f.Add(bytes.Join([][]byte{whole(frameSettings, 0, 0, appendSetting(nil, settingWindow, 3)), whole(frameWindow, 0, 1, appendUint32(nil, 9)), whole(frameGoAway, 0, 0, make([]byte, 8))}, nil))
	f.Add(whole(frameReset, 0, 3, appendUint32(nil, 7)))
	f.Fuzz(func(t *testing.T, says []byte) {
		ours, theirs := net.Pipe()
		go func() {
			go io.Copy(io.Discard, theirs)
			theirs.Write(frameHead(0, frameSettings, 0, 0))
			theirs.Write(says)
			theirs.Close()
		}()
		c := New(ours)
		if err := c.Greet(0); err != nil {
			return
		}
		var told [2]int
		for i := range told {
			c.Send(&Call{Request: post("x", "/", make([]byte, 70_000)), Done: func(Answer) { told[i]++ }})
		}
		c.Run()
		if fmt.Sprint(told) != "[1 1]" {
			t.Errorf("told %v", told)
		}
	})
}
