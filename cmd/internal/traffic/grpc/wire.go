package grpc

import (
	"encoding/binary"
	"errors"
	"math"
)

// This file reads and writes the wire format of protocol buffers.

// Types on the wire.
const (
	wireVarint = 0
	wire64     = 1
	wireBytes  = 2
	wire32     = 5
)

// A field is one of a message on the wire.
type field struct {
	number int
	value  uint64 // of a number
	bytes  []byte // nil: it is a number
}

// mostNumber is the highest number of a field.
const mostNumber = 1<<29 - 1

var errWire = errors.New("cut short, or not a protocol buffers message")

// fields goes through the fields of a message. Groups, which are obsolete, end it.
func fields(data []byte, each func(field) error) error {
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 || tag>>3 == 0 || tag>>3 > mostNumber {
			return errWire
		}
		data = data[n:]
		f := field{number: int(tag >> 3)}
		switch tag & 7 {
		case wireVarint:
			if f.value, n = binary.Uvarint(data); n <= 0 {
				return errWire
			}
		case wire64:
			if n = 8; len(data) < n {
				return errWire
			}
			f.value = binary.LittleEndian.Uint64(data)
		case wire32:
			if n = 4; len(data) < n {
				return errWire
			}
			f.value = uint64(binary.LittleEndian.Uint32(data))
		case wireBytes:
			length, head := binary.Uvarint(data)
			if head <= 0 || length > uint64(len(data)-head) {
				return errWire
			}
			n = head + int(length)
			f.bytes = data[head:n:n]
		default:
			return errWire
		}
		data = data[n:]
		if err := each(f); err != nil {
			return err
		}
	}
	return nil
}

func appendTag(to []byte, number, wire int) []byte {
	return binary.AppendUvarint(to, uint64(number)<<3|uint64(wire))
}

func appendBytes(to []byte, number int, data []byte) []byte {
	to = binary.AppendUvarint(appendTag(to, number, wireBytes), uint64(len(data)))
	return append(to, data...)
}

func appendVarint(to []byte, number int, v uint64) []byte {
	return binary.AppendUvarint(appendTag(to, number, wireVarint), v)
}

func appendDouble(to []byte, number int, v float64) []byte {
	return binary.LittleEndian.AppendUint64(appendTag(to, number, wire64), math.Float64bits(v))
}
