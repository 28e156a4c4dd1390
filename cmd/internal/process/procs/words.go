package procs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Bounds on what is read of a process's command and environment, and on what is kept. The kernel gives both 6 MiB at most when a
// program is started; later the process may say that they are anywhere in its memory.
const (
	maxArea     = 8 << 20  // bytes that are read
	maxCommand  = 16 << 10 // bytes of a command that are kept; an API server of Kubernetes has some 5 KB
	maxWords    = 256      // of a command; it has some 80
	maxArgument = 1 << 10  // bytes of each
	maxValue    = 256      // bytes of a variable's value; numbers, percentages and short lists
	maxVariable = 64       // bytes of its name
	maxEnv      = 32       // variables; there are 20 that Go and this project take
)

// more stands for the words of a command that are left out, and for the rest of one.
const more = "…"

// splitCommand reads the text of /proc/PID/cmdline: words, each ended by a zero byte.
func splitCommand(r io.Reader) ([]string, error) {
	var command []string
	left := maxCommand
	err := eachWord(r, maxArgument, func(word []byte, whole bool) bool {
		if left -= len(word); left < 0 || len(command) == maxWords {
			command = append(command, more)
			return false
		}
		text := string(word)
		if !whole {
			text = beginning(text) + more
		}
		command = append(command, text)
		return true
	})
	if err != nil { // it does not end, or its process did
		command = append(command, more)
	}
	if len(command) == 1 && command[0] == "" {
		return nil, err
	}
	return command, err
}

// parseEnviron reads the text of /proc/PID/environ. The first of two equal names counts, as for os.Getenv. Only variables that Go or this
// project would use are kept: there may be thousands of others, and secrets among them. GODEBUG may be long, so only the settings that
// matter here are kept.
func parseEnviron(r io.Reader) (map[string]string, error) {
	env := map[string]string{}
	err := eachWord(r, maxVariable+1+maxDefaults, func(variable []byte, whole bool) bool {
		name, value, ok := bytes.Cut(variable, []byte("="))
		if !ok || len(name) > maxVariable || len(env) == maxEnv || !concerns(string(name)) {
			return true
		}
		if _, seen := env[string(name)]; seen {
			return true
		}
		text := string(value[:min(len(value), maxValue)])
		if len(value) > maxValue {
			text = beginning(text) + more
			if string(name) == "GODEBUG" {
				text = mattering(string(value))
			}
		}
		env[string(name)] = text
		return true
	})
	if err != nil {
		return nil, err
	}
	return env, nil
}

// mattering is a long GODEBUG with those of its settings that say something of GOMAXPROCS.
func mattering(text string) string {
	settings := ParseGODEBUG(text)
	var short strings.Builder
	for _, name := range []string{"containermaxprocs", "updatemaxprocs"} {
		if value, ok := settings[name]; ok {
			short.WriteString(name + "=" + cut(value, maxValue/4) + ",")
		}
	}
	return short.String() + more
}

// beginning is a text that was cut somewhere, without the character that was cut in two. Anything else in it that isn't UTF-8 stays, as in
// one that was not cut.
func beginning(text string) string {
	for i := len(text) - 1; i >= 0 && i > len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRuneInString(text[i:]) {
				return text[:i]
			}
			break
		}
	}
	return text
}

// eachWord shows the words of a text that zero bytes end, or of a longer one its first bytes. The last one need not be ended.
// visit says whether to go on.
func eachWord(r io.Reader, most int, visit func(word []byte, whole bool) bool) error {
	limited := &io.LimitedReader{R: r, N: maxArea}
	lines := bufio.NewReaderSize(limited, 8<<10)
	var begun []byte // of a word that does not fit in the buffer
	for {
		piece, err := lines.ReadSlice(0)
		begun = append(begun, piece[:min(len(piece), most+1-min(len(begun), most+1))]...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == nil:
			if word := bytes.TrimSuffix(begun, []byte{0}); !visit(word[:min(len(word), most)], len(word) <= most) {
				return nil
			}
		case err == io.EOF && limited.N == 0:
			return fmt.Errorf("more than %d MiB", maxArea>>20)
		case err == io.EOF:
			if len(begun) > 0 {
				visit(begun[:min(len(begun), most)], len(begun) <= most)
			}
			return nil
		default:
			return err
		}
		begun = begun[:0]
	}
}
