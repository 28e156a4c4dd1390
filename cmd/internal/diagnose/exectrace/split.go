package exectrace

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The frame of a trace, of Go 1.22 and later; see internal/trace/tracev2 of the Go tree:
//
//	"go 1.26 trace\x00\x00\x00"
//	batch: 0x01 generation thread time size, then size bytes; or 0x31 experiment and the same; all numbers are varints
//	0x34: the end of a generation, since Go 1.26; before, a batch of the next one is its end
//
// A generation, about a second of the program, has its own tables of stacks and strings, and the state of everything
// when it began. So it can be read without the ones before it.
const (
	eventBatch        = 1
	experimentalBatch = 49
	generationEnd     = 52

	headerSize   = 16
	maxBatchSize = 64 << 10

	// A generation is held in memory as a whole, twice. One of 192 busy CPUs would fit.
	maxGeneration = 48 << 20
)

// A splitter cuts a trace into generations, each a trace of its own.
type splitter struct {
	r       *bufio.Reader
	header  [headerSize]byte
	version int   // 1.x
	read    int64 // bytes

	next       []byte // the first batch of the next generation
	nextNumber uint64
	nextTally  tally

	generations int
	tally       tally  // of this generation
	last        []byte // the batch that was read last, without its head
}

// ErrOld is a trace of a Go that is too old.
var ErrOld = errors.New("its format is older than that of Go 1.22")

func newSplitter(r io.Reader) (*splitter, error) {
	s := &splitter{r: bufio.NewReaderSize(r, 256<<10)}
	if _, err := io.ReadFull(s.r, s.header[:]); err != nil {
		return nil, fmt.Errorf("not an execution trace: %d bytes", s.r.Buffered())
	}
	var rest string
	if _, err := fmt.Sscanf(strings.TrimRight(string(s.header[:]), "\x00"), "go 1.%d %s", &s.version, &rest); err != nil || rest != "trace" {
		return nil, fmt.Errorf("not an execution trace: begins with %q", s.header)
	}
	if s.version < 22 {
		return nil, fmt.Errorf("execution trace of Go 1.%d: %w", s.version, ErrOld)
	}
	s.read = headerSize
	return s, nil
}

// errTooLarge is a generation that is left out.
var errTooLarge = &leftOut{fmt.Sprintf("it has more than %d MB", maxGeneration>>20)}

// errGenerations ends the reading.
var errGenerations = fmt.Errorf("more than %d generations, and a trace begins one a second", mostGenerations)

// generation returns the next generation with a header, or io.EOF after the last. With another error the trace is
// unreadable from there; what came with it is a generation that may be incomplete.
func (s *splitter) generation() ([]byte, error) {
	if s.generations++; s.generations > mostGenerations {
		return nil, errGenerations
	}
	g := append(make([]byte, 0, 1<<20), s.header[:]...)
	g = append(g, s.next...)
	number, have := s.nextNumber, len(s.next) > 0
	s.next, s.tally, s.nextTally = nil, s.nextTally, tally{}
	var left error // out: the rest of it is not kept
	for {
		start := len(g)
		b, n, end, err := s.batch(g)
		switch {
		case err == io.EOF && !have:
			return nil, io.EOF
		case end, err == io.EOF && s.version < 26:
			if left != nil {
				return nil, left
			}
			return b, nil
		case err == io.EOF && left != nil:
			return nil, left
		case err == io.EOF:
			return g, io.ErrUnexpectedEOF
		case err != nil:
			return g[:start], err
		case have && n != number && s.version < 26:
			s.next, s.nextNumber = append([]byte(nil), b[start:]...), n
			s.nextTally.add(s.last) // one alone is within all bounds
			if left != nil {
				return nil, left
			}
			return b[:start], nil
		}
		g, number, have = b, n, true
		if left == nil {
			left = s.tally.add(s.last)
		}
		if left == nil && len(g) > maxGeneration {
			left = errTooLarge
		}
		if left != nil {
			g = g[:headerSize]
		}
	}
}

// batch appends the next batch to g.
func (s *splitter) batch(g []byte) (b []byte, generation uint64, end bool, err error) {
	kind, err := s.r.ReadByte()
	if err != nil {
		return g, 0, false, err
	}
	s.read++
	if kind == generationEnd && s.version >= 26 {
		return append(g, kind), 0, true, nil
	}
	if kind != eventBatch && kind != experimentalBatch {
		return g, 0, false, fmt.Errorf("byte %d of the trace is %d, no batch", s.read-1, kind)
	}
	g = append(g, kind)
	if kind == experimentalBatch {
		experiment, err := s.r.ReadByte()
		if err != nil {
			return g, 0, false, unexpected(err)
		}
		g = append(g, experiment)
	}
	var fields [4]uint64 // generation, thread, time, size
	for i := range fields {
		if fields[i], err = binary.ReadUvarint(s.r); err != nil {
			return g, 0, false, unexpected(err)
		}
		g = binary.AppendUvarint(g, fields[i])
	}
	if fields[3] > maxBatchSize {
		return g, 0, false, fmt.Errorf("a batch of %d bytes before byte %d of the trace", fields[3], s.read)
	}
	at := len(g)
	g = append(g, make([]byte, fields[3])...)
	if _, err := io.ReadFull(s.r, g[at:]); err != nil {
		return g, 0, false, unexpected(err)
	}
	s.read += int64(len(g) - at)
	if s.last = nil; kind == eventBatch {
		s.last = g[at:]
	}
	return g, fields[0], false, nil
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
