package h2

import (
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
)

// This file reads and writes frames; see RFC 9113, sections 4 and 6.

const (
	frameData         = 0
	frameHeaders      = 1
	framePriority     = 2
	frameReset        = 3
	frameSettings     = 4
	framePush         = 5
	framePing         = 6
	frameGoAway       = 7
	frameWindow       = 8
	frameContinuation = 9

	flagEndStream  = 0x1
	flagAck        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20

	settingTable   = 1
	settingPush    = 2
	settingStreams = 3
	settingWindow  = 4
	settingFrame   = 5
	settingHead    = 6

	codeNone    = 0
	codeRefused = 7
	codeCancel  = 8
)

// codes are the names of errors.
var codes = []string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR",
	"REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

func codeName(code uint32) string {
	if int64(code) < int64(len(codes)) {
		return codes[code]
	}
	return "error " + strconv.FormatUint(uint64(code), 10)
}

// A header is what a frame begins with.
type header struct {
	length int
	kind   byte
	flags  byte
	id     uint32
}

func frameHead(length int, kind, flags byte, id uint32) []byte {
	return []byte{byte(length >> 16), byte(length >> 8), byte(length), kind, flags, byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}
}

func appendUint32(to []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(to, v) }

func appendSetting(to []byte, id uint16, v uint32) []byte {
	return appendUint32(binary.BigEndian.AppendUint16(to, id), v)
}

func appendWindow(to []byte, id, more uint32) []byte {
	return appendUint32(append(to, frameHead(4, frameWindow, 0, id)...), more)
}

func bad(what string) error { return fmt.Errorf("the server breaks the rules of HTTP/2: %s", what) }

// read reads a frame. Its payload is there until the next one is read. That of data is not needed: unless it is padded, it is skipped.
func (c *Conn) read() (h header, payload []byte, err error) {
	head, err := c.in.Peek(9)
	if err != nil {
		return h, nil, err
	}
	h = header{int(head[0])<<16 | int(head[1])<<8 | int(head[2]), head[3], head[4], binary.BigEndian.Uint32(head[5:]) & maxID}
	if string(head[:5]) == "HTTP/" {
		return h, nil, ErrNotHTTP2
	}
	c.in.Discard(9)
	if h.length > maxFrame {
		return h, nil, bad("a frame is too large")
	}
	if h.kind == frameData && h.flags&flagPadded == 0 {
		_, err = c.in.Discard(h.length)
	} else {
		payload = c.buf[:h.length]
		_, err = io.ReadFull(c.in, payload)
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return h, payload, err
}

// take does what a frame says.
func (c *Conn) take(h header, payload []byte) error {
	if h.kind == frameHeaders {
		return c.takeHeaders(h, payload)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.flush()
	call := c.open[h.id]
	if h.id > 0 && (h.id >= c.nextID || h.id%2 == 0) && h.kind <= frameContinuation && h.kind != framePriority {
		return bad("a frame of a request that was not sent")
	}
	switch h.kind {
	case frameData:
		return c.takeData(h, payload, call)
	case frameReset:
		if h.length != 4 || h.id == 0 {
			return bad("a reset")
		}
		if code := binary.BigEndian.Uint32(payload); call != nil {
			err := fmt.Errorf("the server reset the call: %s", codeName(code))
			if code == codeRefused {
				err = ErrUnprocessed
			}
			c.finish(call, err)
		}
	case frameSettings:
		if h.flags&flagAck == 0 {
			return c.settings(h, payload)
		}
	case framePing:
		if h.length != 8 {
			return bad("a ping")
		}
		if h.flags&flagAck == 0 {
			return c.reply(framePing, payload)
		}
	case frameGoAway:
		return c.goAway(h, payload)
	case frameWindow:
		return c.takeWindow(h, payload, call)
	case framePush, frameContinuation:
		return bad("an unrequested frame")
	}
	return nil
}

// takeData counts some of a body.
func (c *Conn) takeData(h header, payload []byte, call *Call) error {
	n := h.length
	if h.flags&flagPadded != 0 {
		if len(payload) == 0 || int(payload[0]) >= len(payload) {
			return bad("padding")
		}
		n -= 1 + int(payload[0])
	}
	if c.unread += int64(h.length); c.unread >= connWindow/4 {
		c.out = appendWindow(c.out, 0, uint32(c.unread))
		c.unread = 0
	}
	if call == nil { // it was given up
		return nil
	}
	if !call.begun {
		return bad("a body without a head")
	}
	call.answer.Bytes += int64(n)
	if h.flags&flagEndStream != 0 {
		c.complete(call)
		return nil
	}
	if call.unread += int64(h.length); call.unread >= ownWindow/2 {
		c.out = appendWindow(c.out, call.id, uint32(call.unread))
		call.unread = 0
	}
	return nil
}

// complete ends a call that is answered, maybe before all of it was sent.
func (c *Conn) complete(call *Call) {
	if len(call.rest) > 0 {
		c.reset(call, codeNone)
	}
	c.finish(call, nil)
}

// reply answers a frame of the server's own.
func (c *Conn) reply(kind byte, payload []byte) error {
	if len(c.out) > maxAnswers {
		return bad("it asks, and does not read the answers")
	}
	c.out = append(append(c.out, frameHead(len(payload), kind, flagAck, 0)...), payload...)
	return nil
}

// settings are what the server wants. c.mu is held.
func (c *Conn) settings(h header, payload []byte) error {
	if h.length%6 != 0 || h.id != 0 {
		return bad("settings")
	}
	for ; len(payload) > 0; payload = payload[6:] {
		v := binary.BigEndian.Uint32(payload[2:])
		switch binary.BigEndian.Uint16(payload) {
		case settingTable:
			c.enc.SetMaxDynamicTableSizeLimit(v)
		case settingStreams:
			c.most = v
		case settingFrame:
			if v < maxFrame || v >= 1<<24 {
				return bad("a frame's size")
			}
			c.frame = min(int(v), maxQueued)
		case settingWindow:
			if v > maxWindow {
				return bad("a window's size")
			}
			for _, call := range c.open {
				call.window += int64(v) - c.initial
			}
			c.initial = int64(v)
		}
	}
	c.bodies()
	if err := c.reply(frameSettings, nil); err != nil {
		return err
	}
	c.flush()
	return nil
}

// goAway ends the connection for calls that were not sent yet, or came too late for the server.
func (c *Conn) goAway(h header, payload []byte) error {
	if h.length < 8 || h.id != 0 {
		return bad("a farewell")
	}
	c.closing = true
	last, code := binary.BigEndian.Uint32(payload)&maxID, binary.BigEndian.Uint32(payload[4:])
	if code != codeNone {
		c.why = fmt.Errorf("the server closes the connection: %s", codeName(code))
	}
	for call := c.first; call != nil; {
		next := call.next
		if call.id > last {
			c.finish(call, ErrUnprocessed)
		}
		call = next
	}
	return nil
}

// takeWindow lets more of the bodies go.
func (c *Conn) takeWindow(h header, payload []byte, call *Call) error {
	if h.length != 4 {
		return bad("a window")
	}
	more := int64(binary.BigEndian.Uint32(payload) & maxWindow)
	switch {
	case h.id == 0:
		if c.window += more; c.window > maxWindow {
			return bad("a window's size")
		}
	case call != nil:
		if call.window += more; call.window > maxWindow {
			return bad("a window's size")
		}
	}
	c.bodies()
	return nil
}

// takeHeaders reads the head of an answer, or its trailers, and the frames that continue them. They are unpacked whether a call waits for
// them or not: what comes later depends on it.
func (c *Conn) takeHeaders(h header, payload []byte) error {
	if h.id == 0 || h.id%2 == 0 {
		return bad("a head of nothing")
	}
	skip, pad := 0, 0
	if h.flags&flagPadded != 0 && len(payload) > 0 {
		skip, pad = 1, int(payload[0])
	}
	if h.flags&flagPriority != 0 {
		skip += 5
	}
	if skip+pad > len(payload) {
		return bad("padding")
	}
	c.fields, c.size = c.fields[:0], 0
	part, ended, all := payload[skip:len(payload)-pad], h.flags&flagEndStream != 0, 0
	for {
		if all += 9 + len(part); all > maxHead {
			return errHead
		}
		if _, err := c.dec.Write(part); err != nil {
			return bad("its fields can't be unpacked")
		}
		if h.flags&flagEndHeaders != 0 {
			break
		}
		next, payload, err := c.read()
		if err != nil {
			return err
		}
		if next.kind != frameContinuation || next.id != h.id {
			return bad("a head breaks off")
		}
		h, part = next, payload
	}
	if err := c.dec.Close(); err != nil {
		return bad("its fields can't be unpacked")
	}
	if c.size > maxHead {
		return errHead
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.flush()
	call := c.open[h.id]
	switch {
	case h.id >= c.nextID:
		return bad("a frame of a request that was not sent")
	case call == nil: // it was given up
		return nil
	}
	return c.heard(call, ended)
}

// heard takes the fields that were read. c.mu is held.
func (c *Conn) heard(call *Call, ended bool) error {
	a, status := &call.answer, 0
	for _, f := range c.fields {
		switch f.Name {
		case ":status":
			status, _ = strconv.Atoi(f.Value)
		case "content-type":
			if !call.begun {
				a.ContentType = f.Value
			}
		case "grpc-status":
			a.GRPCStatus = f.Value
		}
	}
	switch {
	case call.begun && !ended:
		return bad("trailers before the end")
	case call.begun:
	case status < 100 || status > 999:
		return bad("an answer without a status")
	case status < 200 && !ended: // more will come
		return nil
	default:
		call.begun, a.Status = true, status
	}
	if ended {
		c.complete(call)
	}
	return nil
}
