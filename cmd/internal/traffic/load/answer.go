package load

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// An answer reads an HTTP/1.1 response from pieces as they come. It keeps what a load generator wants to know, the status
// and the body's length, and throws the rest away.
//
//	HTTP/1.1 200 OK
//	Content-Length: 5
//
//	hello
type answer struct {
	head   bool // it answers a HEAD request: no body, whatever its fields say
	state  state
	line   []byte // of the head, or of a chunk's, as far as it has come
	inHead int    // bytes of the head so far
	status int
	length int64 // of the body as announced; -1: not
	left   int64 // of the body, or of a chunk
	coded  bool  // in chunks
	old    bool  // HTTP/1.0
	keep   bool  // the server means to keep the connection, which goes without saying since HTTP/1.1
	close  bool  // the server closes the connection, or we must
	body   int64 // bytes so far
}

type state uint8

const (
	inStatus state = iota
	inFields
	inBody
	toClose // the body ends with the connection
	inChunkSize
	inChunk
	afterChunk
	inTrailer
	done
)

// maxHead bounds a head: browsers accept no larger one. maxLine bounds the line of a chunk's size.
const (
	maxHead = 256 << 10
	maxLine = 4096
)

var errHeadTooLong = fmt.Errorf("the answer's head has more than %d bytes", maxHead)

// reset makes it ready for the next answer.
func (a *answer) reset(head bool) {
	*a = answer{head: head, line: a.line[:0], length: -1}
}

// begun reports whether anything of the answer has come.
func (a *answer) begun() bool { return a.state != inStatus || len(a.line) > 0 || a.inHead > 0 }

// feed takes what was read and returns how much of it belongs to the answer: less than all only if state is done.
func (a *answer) feed(p []byte) (int, error) {
	n := 0
	for n < len(p) && a.state != done {
		switch a.state {
		case inBody, inChunk, toClose:
			n += a.skip(int64(len(p) - n))
			continue
		}
		line, used, whole := a.readLine(p[n:])
		n += used
		if a.state == inStatus || a.state == inFields || a.state == inTrailer {
			if a.inHead += used; a.inHead > maxHead {
				return n, errHeadTooLong
			}
		} else if len(a.line) > maxLine {
			return n, errors.New("the line of a chunk's size does not end")
		}
		if !whole {
			break
		}
		if err := a.take(line); err != nil {
			return n, err
		}
		a.line = a.line[:0]
	}
	return n, nil
}

// skip counts what belongs to the body, or to a chunk.
func (a *answer) skip(n int64) int {
	if a.state != toClose {
		n = min(n, a.left)
		a.left -= n
		if a.left == 0 && a.state == inBody {
			a.state = done
		} else if a.left == 0 {
			a.state = afterChunk
		}
	}
	a.body += n
	return int(n)
}

// readLine returns a line without its end, once all of it is there.
func (a *answer) readLine(p []byte) (line []byte, used int, whole bool) {
	i := bytes.IndexByte(p, '\n')
	if i < 0 {
		a.line = append(a.line, p...)
		return nil, len(p), false
	}
	line = p[:i]
	if len(a.line) > 0 {
		a.line = append(a.line, line...)
		line = a.line
	}
	return bytes.TrimSuffix(line, []byte("\r")), i + 1, true
}

func (a *answer) take(line []byte) error {
	switch a.state {
	case inStatus:
		return a.takeStatus(line)
	case inFields:
		if len(line) > 0 {
			return a.takeField(line)
		}
		return a.takeHeadEnd()
	case inChunkSize:
		return a.takeChunkSize(line)
	case afterChunk:
		if len(line) > 0 {
			return fmt.Errorf("%.40q after a chunk", line)
		}
		a.state = inChunkSize
	case inTrailer:
		if len(line) == 0 {
			a.state = done
		}
	}
	return nil
}

// takeStatus reads "HTTP/1.1 200 OK".
func (a *answer) takeStatus(line []byte) error {
	// HTTP/1.x SP 3 digits
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return fmt.Errorf("not an HTTP/1.1 answer: %.40q…", line)
	}
	status, err := strconv.ParseUint(string(line[9:12]), 10, 16)
	if err != nil || status < 100 {
		return fmt.Errorf("bad status %.40q", line)
	}
	a.status = int(status)
	a.old = line[7] == '0'
	a.state = inFields
	return nil
}

func (a *answer) takeField(line []byte) error {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok || len(name) == 0 || bytes.ContainsAny(name, " \t") {
		if line[0] == ' ' || line[0] == '\t' { // a folded line: more of a value that we don't need, if it was not one of ours
			return nil
		}
		return fmt.Errorf("bad header line %.40q", line)
	}
	switch value = bytes.TrimSpace(value); {
	case is(name, "content-length"):
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || value[0] == '+' || n < 0 || a.length >= 0 && a.length != n {
			return fmt.Errorf("bad content length %.40q", value)
		}
		a.length = n
	case is(name, "transfer-encoding"):
		if !is(value, "chunked") {
			return fmt.Errorf("unknown transfer encoding %.40q", value)
		}
		a.coded = true
	case is(name, "connection"):
		for _, token := range bytes.Split(value, []byte(",")) {
			switch token = bytes.TrimSpace(token); {
			case is(token, "close"):
				a.close = true
			case is(token, "keep-alive"):
				a.keep = true
			}
		}
	}
	return nil
}

// is compares without regard to case; lower is lower case.
func is(b []byte, lower string) bool {
	return len(b) == len(lower) && bytes.EqualFold(b, []byte(lower))
}

// takeHeadEnd decides from the head how the body ends; see RFC 9112, section 6.3.
func (a *answer) takeHeadEnd() error {
	a.close = a.close || a.old && !a.keep
	switch {
	case a.status == 101:
		return errors.New("the server switches protocols, which was not asked for")
	case a.status < 200: // an interim answer; the true one follows
		inHead, head := a.inHead, a.head
		a.reset(head)
		a.inHead = inHead
	case a.head || a.status == 204 || a.status == 304:
		a.state = done
	case a.coded && a.old:
		return errors.New("chunks in an answer of HTTP/1.0, which has none")
	case a.coded:
		a.state = inChunkSize
	case a.length > 0:
		a.left, a.state = a.length, inBody
	case a.length == 0:
		a.state = done
	default:
		a.close, a.state = true, toClose
	}
	return nil
}

// takeChunkSize reads "1f;name=value".
func (a *answer) takeChunkSize(line []byte) error {
	size, _, _ := bytes.Cut(line, []byte(";"))
	n, err := strconv.ParseUint(string(bytes.TrimSpace(size)), 16, 63)
	if err != nil {
		return fmt.Errorf("bad size of a chunk %.40q", line)
	}
	if a.left, a.state = int64(n), inChunk; n == 0 {
		a.state, a.inHead = inTrailer, 0
	}
	return nil
}

// eof reports whether the end of the connection is the end of the answer too.
func (a *answer) eof() bool { return a.state == toClose }
