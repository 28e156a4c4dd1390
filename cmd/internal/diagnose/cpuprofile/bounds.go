package cpuprofile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Limits of what is read. A profile of 192 CPUs over a minute has some 10 MB and at most 1.2 million samples. The parser makes some hundred
// bytes of a message, which may be two bytes here. It makes sixteen of a number in a packed list, which may be one byte: the eight of the
// number, and the pointer to the location that it is the id of. So all of them are bounded. Numbers take two bytes on average in a large
// profile, so that 10 MB have five million of them.
const (
	bytesMost   = 64 << 20
	partsMost   = 2 << 20
	numbersMost = 16 << 20
)

var errLarge = fmt.Errorf("reading the profile: more than %d MiB, more than %d parts, or more than %d numbers in its stacks: no CPU profile has", bytesMost>>20, partsMost, numbersMost)

// readBounded reads a profile and unpacks it.
func readBounded(r io.Reader) ([]byte, error) {
	data, err := readMost(r)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		gz, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("unpacking the profile: %w", err)
		}
		if data, err = readMost(gz); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return nil, fmt.Errorf("unpacking the profile: cut off: %w", err)
			}
			return nil, fmt.Errorf("unpacking the profile: %w", err)
		}
	}
	if kind := kindOf(data); kind != "" {
		return nil, &KindError{kind}
	}
	return data, checkParts(data)
}

func readMost(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, bytesMost+1))
	if err == nil && len(data) > bytesMost {
		err = errLarge
	}
	return data, err
}

// kindOf recognises, by its beginning, what is not a profile in its binary form.
func kindOf(data []byte) string {
	if len(bytes.TrimSpace(data)) == 0 {
		return Empty
	}
	for _, k := range []struct{ begin, kind string }{
		{"go 1.", Trace},
		{"\x7fELF", Program},
		{"PERFILE2", "a record of Linux perf"},
		{"heap profile: ", Text},
		{"goroutine profile: ", Text},
		{"threadcreate profile: ", Text},
		{"--- contention:", Text},
		{"--- mutex:", Text},
		{"<", HTML},
		{"{\"", JSON},
		{"{\n", JSON},
		{"{\r\n", JSON},
	} {
		if bytes.HasPrefix(data, []byte(k.begin)) {
			return k.kind
		}
	}
	return ""
}

// checkParts counts the messages of a profile, and the numbers in packed lists, before the parser gives each of them memory. A field begins
// with a varint of its number and wire type: see https://protobuf.dev/programming-guides/encoding.
func checkParts(data []byte) error {
	const top, sample, location, comment = 0, 2, 4, 13 // fields of a profile
	parts, numbers := 0, 0
	var walk func(data []byte, in uint64) error
	walk = func(data []byte, in uint64) error {
		for len(data) > 0 {
			tag, n := binary.Uvarint(data)
			if n <= 0 {
				return errMalformed
			}
			data = data[n:]
			if parts++; parts > partsMost {
				return errLarge
			}
			size := 0
			switch tag & 7 {
			case 0:
				if _, size = binary.Uvarint(data); size <= 0 {
					return errMalformed
				}
			case 1:
				size = 8
			case 2:
				length, n := binary.Uvarint(data)
				if n <= 0 || length > uint64(len(data)-n) {
					return errMalformed
				}
				size = n + int(length)
				switch field := tag >> 3; {
				case in == top && (field == sample || field == location):
					if err := walk(data[n:size], field); err != nil {
						return err
					}
				case in == top && field == comment:
					parts += varints(data[n:size])
				case in == sample: // ids of locations, or values
					numbers += varints(data[n:size])
				}
				if parts > partsMost || numbers > numbersMost {
					return errLarge
				}
			case 5:
				size = 4
			default:
				return errMalformed
			}
			if size > len(data) {
				return errMalformed
			}
			data = data[size:]
		}
		return nil
	}
	return walk(data, top)
}

// varints is how many numbers a packed list has.
func varints(list []byte) (n int) {
	for _, b := range list {
		if b < 0x80 {
			n++
		}
	}
	return n
}

var errMalformed = errors.New("reading the profile: this is not a profile, or it is damaged")
