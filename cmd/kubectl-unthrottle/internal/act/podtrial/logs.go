package podtrial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Logs keep what containers wrote last that failed. Nothing of it is anywhere else: it may hold secrets, and a document is handed around.
type Logs struct {
	mu sync.Mutex
	to io.Writer
}

// NewLogs keeps them in a file.
func NewLogs(to io.Writer) *Logs { return &Logs{to: to} }

// What is kept of a log: its last lines, and the last bytes of these.
const (
	lastLines = 200
	mostKept  = 1 << 20
)

// keepLog keeps the log of a container that failed, if that is what an error is.
func (x *Session) keepLog(err error) {
	var own *Fault
	if x.Logs == nil || !errors.As(err, &own) {
		return
	}
	ctx, cancel := context.WithTimeout(x.ctx, ending)
	defer cancel()
	log, err := x.lastLog(ctx, own.Container)
	if err != nil {
		log = []byte(fmt.Sprintf("(its log can't be read: %v)\n", err))
	}
	x.Logs.keep(fmt.Sprintf("== %s, GOMAXPROCS=%s, container %s: %s\n", x.run, procsText(x.setting.Procs), own.Container, own.Err.Why), log)
}

func procsText(procs int) string {
	if procs == 0 {
		return "as it is"
	}
	return fmt.Sprint(procs)
}

// lastLog is the end of the log of a container of the server's pod.
func (x *Session) lastLog(ctx context.Context, container string) ([]byte, error) {
	p, err := x.podOf(ctx, x.job)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, errors.New("its pod is gone")
	}
	log, err := x.API.LastLog(ctx, x.Kit.Namespace, p.Metadata.Name, container, lastLines)
	return log[max(0, len(log)-mostKept):], err
}

// keep writes one, whole. That it can't be written is of no account to the study, and the file's size shows it.
func (l *Logs) keep(head string, log []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(log); n > 0 && log[n-1] != '\n' {
		log = append(log, '\n')
	}
	l.to.Write(append([]byte(head), bytes.ToValidUTF8(log, []byte("?"))...))
}
