// Package h2 answers: what comes of requests that share a connection of HTTP/2? In go a connection and calls, each with the fields and the
// body of a request; out comes each call's status, or why it has none. It keeps what a load generator wants to know, and throws the bodies
// away. It opens no connection, and sends nothing twice.
//
// A call costs little: the goroutine that sends it writes it, all at once, and one goroutine for each connection reads. net/http has three
// goroutines for a request, and writes its head and its body apart.
package h2

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"
)

// A Request is what a call sends. Names are in lower case, and those with a colon come first.
type Request struct {
	Header [][2]string
	Body   []byte
}

// An Answer is what came of a call.
type Answer struct {
	Status      int
	ContentType string
	GRPCStatus  string // of the trailers, or else of the head
	Bytes       int64  // of the body
	Err         error  // why it is not complete; io.EOF: the connection ended before anything came, io.ErrUnexpectedEOF: before the end
}

// A Call is sent, and Done gets what came of it. Then it may be sent again.
type Call struct {
	Request *Request
	Timeout time.Duration // from when it is sent; 0: none
	Done    func(Answer)

	id         uint32
	deadline   time.Time
	answer     Answer
	begun      bool   // the head has come
	rest       []byte // of the body, what is still to be sent
	window     int64  // what the server takes of it
	unread     int64  // that came, and was not yet acknowledged to the server as read
	prev, next *Call  // that were sent before and after, of those that are open
}

var (
	ErrTimeout = errors.New("timeout")
	// ErrUnprocessed is of a call of which the server says that it has done nothing: it may be sent again.
	ErrUnprocessed = errors.New("the server refuses the call")
	// ErrNotHTTP2 is of a server that speaks something else.
	ErrNotHTTP2 = errors.New("the server does not speak HTTP/2")
)

const (
	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

	maxFrame   = 16 << 10  // that we take: what each side must
	maxHead    = 256 << 10 // of an answer, packed or not
	maxQueued  = 1 << 20   // that waits to be written, before more of the bodies is added to it
	maxAnswers = 4 << 20   // and with what the server has us answer: one that asks and does not read is left

	ownWindow  = 4 << 20 // of the body of an answer
	connWindow = 1 << 30 // of all
	defWindow  = 65_535
	maxWindow  = 1<<31 - 1
	maxID      = 1<<31 - 1
)

// A Conn is a connection.
type Conn struct {
	nc net.Conn
	in *bufio.Reader
	at attempt

	mu       sync.Mutex
	out      []byte // what to write
	writing  bool   // a goroutine does it
	enc      *hpack.Encoder
	packed   bytes.Buffer
	open     map[uint32]*Call
	first    *Call // of those that are open
	last     *Call
	pending  []*Call // that have a rest
	nextID   uint32
	most     uint32 // that may be open
	window   int64  // what the server takes of all bodies
	initial  int64  // and of one, at first
	frame    int    // the largest that it takes
	unread   int64
	closing  bool // nothing more is sent over it
	why      error
	timer    *time.Timer // ends calls that take too long
	ticking  bool
	finished []*Call // whose Done is still to be called, once c.mu is free

	dec    *hpack.Decoder // the reader's own, and so is what follows
	fields []hpack.HeaderField
	size   int
	buf    [maxFrame]byte
}

// New makes one of a connection that was just opened.
func New(nc net.Conn) *Conn {
	c := &Conn{
		nc: nc, in: bufio.NewReaderSize(nc, 32<<10), open: map[uint32]*Call{}, nextID: 1, most: 100, window: defWindow, initial: defWindow, frame: maxFrame,
	}
	c.at.of(nc)
	c.enc = hpack.NewEncoder(&c.packed)
	c.dec = hpack.NewDecoder(4096, c.field)
	c.dec.SetMaxStringLength(maxHead)
	c.timer = time.AfterFunc(time.Hour, c.expire)
	c.timer.Stop()
	return c
}

// Greet exchanges the settings, for some time at most (0: without end).
func (c *Conn) Greet(timeout time.Duration) error {
	if timeout > 0 {
		c.nc.SetDeadline(time.Now().Add(timeout))
		defer c.nc.SetDeadline(time.Time{})
	}
	hello := append([]byte(preface), frameHead(18, frameSettings, 0, 0)...)
	hello = appendSetting(hello, settingPush, 0)
	hello = appendSetting(hello, settingWindow, ownWindow)
	hello = appendSetting(hello, settingHead, maxHead)
	hello = appendWindow(hello, 0, connWindow-defWindow)
	if _, err := c.nc.Write(hello); err != nil {
		return err
	}
	h, payload, err := c.read()
	switch {
	case err != nil:
		return err
	case h.kind != frameSettings || h.flags&flagAck != 0:
		return ErrNotHTTP2
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settings(h, payload)
}

// Room reports whether another call may be sent now.
func (c *Conn) Room() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.room()
}

func (c *Conn) room() bool { return !c.closing && uint32(len(c.open)) < c.most }

// Closing reports whether calls can no longer be sent, ever.
func (c *Conn) Closing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing
}

// Send sends a call. It does not wait for the server, and returns false if there is no room.
func (c *Conn) Send(call *Call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.room() {
		return false
	}
	call.id, call.answer, call.begun, call.rest, call.window, call.unread = c.nextID, Answer{}, false, call.Request.Body, c.initial, 0
	if c.nextID += 2; c.nextID > maxID-2 {
		c.closing = true
	}
	c.add(call)
	c.head(call)
	if len(call.rest) > 0 {
		if c.body(call); len(call.rest) > 0 {
			c.pending = append(c.pending, call)
		}
	}
	c.flush()
	return true
}

// add puts a call among those that are open.
func (c *Conn) add(call *Call) {
	c.open[call.id] = call
	call.prev, call.next = c.last, nil
	if c.last != nil {
		c.last.next = call
	} else {
		c.first = call
	}
	c.last = call
	if call.Timeout > 0 {
		call.deadline = time.Now().Add(call.Timeout)
		if !c.ticking {
			c.ticking = true
			c.timer.Reset(call.Timeout)
		}
	}
}

// finish takes a call from those that are open. Done is called later, see tell.
func (c *Conn) finish(call *Call, err error) {
	delete(c.open, call.id)
	if call.prev != nil {
		call.prev.next = call.next
	} else {
		c.first = call.next
	}
	if call.next != nil {
		call.next.prev = call.prev
	} else {
		c.last = call.prev
	}
	if len(call.rest) > 0 {
		c.pending = slices.DeleteFunc(c.pending, func(other *Call) bool { return other == call })
	}
	call.prev, call.next, call.rest = nil, nil, nil
	call.answer.Err = err
	c.finished = append(c.finished, call)
}

// tell calls the Done functions of calls. c.mu is not held: they may send the next ones.
func (c *Conn) tell() {
	c.mu.Lock()
	finished := c.finished
	c.finished = nil
	c.mu.Unlock()
	for _, call := range finished {
		call.Done(call.answer)
	}
}

// expire ends the calls that take too long. All have the same timeout, or end a little late.
func (c *Conn) expire() {
	c.mu.Lock()
	now := time.Now()
	for c.first != nil && c.first.Timeout > 0 && !c.first.deadline.After(now) {
		c.reset(c.first, codeCancel)
		c.finish(c.first, ErrTimeout)
	}
	c.ticking = c.first != nil && c.first.Timeout > 0
	if c.ticking {
		c.timer.Reset(c.first.deadline.Sub(now))
	}
	c.flush()
	c.mu.Unlock()
	c.tell()
}

// Run reads until the connection is gone. Calls that are open then have failed.
func (c *Conn) Run() {
	err := c.serve()
	c.nc.Close()
	c.mu.Lock()
	c.closing, c.ticking = true, false
	c.timer.Stop()
	if c.why != nil {
		err = c.why
	}
	for c.first != nil {
		failed := err
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			if failed = io.EOF; c.first.begun {
				failed = io.ErrUnexpectedEOF
			}
		}
		c.finish(c.first, failed)
	}
	c.mu.Unlock()
	c.tell()
}

func (c *Conn) serve() error {
	for {
		h, payload, err := c.read()
		if err == nil {
			err = c.take(h, payload)
		}
		c.tell()
		if err != nil {
			return err
		}
		if c.done() {
			return io.EOF
		}
	}
}

// done reports whether nothing that matters can come any longer.
func (c *Conn) done() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing && len(c.open) == 0
}

// head appends the request's fields. The server keeps them, and those that come again are a byte each.
func (c *Conn) head(call *Call) {
	c.packed.Reset()
	for _, f := range call.Request.Header {
		c.enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	packed, kind, flags := c.packed.Bytes(), byte(frameHeaders), byte(0)
	if len(call.rest) == 0 {
		flags = flagEndStream
	}
	for {
		part := packed[:min(len(packed), c.frame)]
		if packed = packed[len(part):]; len(packed) == 0 {
			flags |= flagEndHeaders
		}
		c.out = append(append(c.out, frameHead(len(part), kind, flags, call.id)...), part...)
		if len(packed) == 0 {
			return
		}
		kind, flags = frameContinuation, 0
	}
}

// body appends as much of a call's body as the server takes.
func (c *Conn) body(call *Call) {
	for len(call.rest) > 0 && len(c.out) < maxQueued {
		n := int(min(int64(len(call.rest)), int64(c.frame), call.window, c.window))
		if n <= 0 {
			return
		}
		flags := byte(0)
		if n == len(call.rest) {
			flags = flagEndStream
		}
		c.out = append(append(c.out, frameHead(n, frameData, flags, call.id)...), call.rest[:n]...)
		call.rest = call.rest[n:]
		call.window -= int64(n)
		c.window -= int64(n)
	}
}

// bodies appends more of those that are not all sent.
func (c *Conn) bodies() {
	still := c.pending[:0]
	for _, call := range c.pending {
		if c.body(call); len(call.rest) > 0 {
			still = append(still, call)
		}
	}
	clear(c.pending[len(still):])
	c.pending = still
}

// reset tells the server that a call is no longer waited for.
func (c *Conn) reset(call *Call, code uint32) {
	c.out = appendUint32(append(c.out, frameHead(4, frameReset, 0, call.id)...), code)
}

// flush writes what it can without waiting, and leaves the rest to a goroutine.
func (c *Conn) flush() {
	if c.writing || len(c.out) == 0 {
		return
	}
	n := c.at.write(c.out)
	if n == len(c.out) {
		c.out = c.out[:0]
		if len(c.pending) == 0 {
			return
		}
		if c.bodies(); len(c.out) == 0 { // the server has to take more first
			return
		}
	} else {
		c.out = append(c.out[:0], c.out[n:]...)
	}
	c.writing = true
	go c.write()
}

// write writes until there is nothing left.
func (c *Conn) write() {
	var spare []byte
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out) > 0 {
		out := c.out
		c.out = spare[:0]
		c.mu.Unlock()
		_, err := c.nc.Write(out)
		c.mu.Lock()
		if spare = out; err != nil {
			c.out = nil
			c.closing = true
			c.nc.Close() // which the reader sees
			return
		}
		c.bodies()
	}
	c.writing = false
}

// field gets each field that the decoder finds.
func (c *Conn) field(f hpack.HeaderField) {
	if c.size += int(f.Size()); c.size <= maxHead {
		c.fields = append(c.fields, f)
	}
}

var errHead = fmt.Errorf("the answer's head has more than %d bytes", maxHead)
