// Package render answers: what does a Helm chart or a kustomization say once it is rendered? In go the files of a chart with values for it,
// or the directory of a kustomization; out come documents, each with the file that it was made of, or why there are none and what would help.
//
// Templates are programs. One that does not end can't be stopped from within Go, and one that doubles a text forty times takes all
// memory before anyone notices. So package engine renders in a process of its own, which is this same program again: it gets the
// chart's bytes and no environment, and it is ended with the time or the memory that it may take. Nothing is fetched, no plugin is
// started, and no cluster is asked: lookup finds nothing.
package render

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// A Request is something to render: a chart by its Files or Packed, or the kustomization in Directory.
type Request struct {
	Files     []File // of a chart's directory, by their names from there, with slashes
	Packed    []byte // a chart in one file, as helm package makes it
	Directory string // of a kustomization, absolute

	Values    []File // for a chart, the last one counting most
	Set       []string
	SetString []string
	Release   string // its name; "": release-name, as helm template has it
	Namespace string // "": default
	Kube      string // the version of Kubernetes; "": the one that Helm takes

	Time   time.Duration // how long it may take; the zero value is mostTime
	Memory int64         // how many bytes it may take; the zero value is mostMemory
}

// A File is one with its bytes.
type File struct {
	Name string
	Data []byte
}

// A Document is what a file was made into.
type Document struct {
	// Source is the file. For a chart it is as helm writes it, the chart's name first: shop/templates/api.yaml. For a kustomization it
	// is a path from its directory, or "" if unknown.
	Source string
	Text   string
	Hook   bool // of a chart
}

// A Reply is what a process of this program answers.
type Reply struct {
	Documents []Document
	Chart     string // its name
	Failed    *Failure
}

// A Kind of failure says what would help.
type Kind string

const (
	Broken   Kind = "broken"  // Helm or Kustomize refuse it, and say why
	Missing  Kind = "missing" // charts that it needs are not there
	Remote   Kind = "remote"  // something that it needs is elsewhere
	Nothing  Kind = "nothing" // a library, or a kustomization without resources: there is nothing to render
	TooSlow  Kind = "slow"
	TooLarge Kind = "large"
)

// A Failure is why there is no rendering.
type Failure struct {
	Kind Kind
	Text string
}

func (f *Failure) Error() string { return f.Text }

// What a rendering may take. The largest charts that are known take two seconds and 200 MiB.
const (
	mostTime   = time.Minute
	mostMemory = 1 << 30
	// MostText is how much may come of one: what etcd would hold of a release is 1 MiB.
	MostText = 64 << 20
	// MostDocuments is how many documents may come of one.
	MostDocuments = 100_000
	// mostRequest is how much a chart may be: Helm reads no more than 100 MiB.
	mostRequest = 128 << 20
	// grace is how much later a process is ended that has not ended itself.
	grace = 5 * time.Second
)

// Exit codes of a process that has ended itself.
const (
	exitTime   = 4
	exitMemory = 5
)

// A Renderer renders one thing at a time. It keeps its process for the next one, and must be closed.
type Renderer struct {
	// Command makes a process that runs Serve on its standard input and output.
	Command func() *exec.Cmd
	// Time and Memory are for each request that does not say.
	Time   time.Duration
	Memory int64

	mu     sync.Mutex
	worker *worker
}

// A worker is a process that renders.
type worker struct {
	cmd    *exec.Cmd
	to     io.WriteCloser
	from   io.Reader
	stderr *tail
}

// Render renders it. The error is a *Failure where the request is to blame, and the context's where that has ended.
func (r *Renderer) Render(ctx context.Context, q Request) (*Reply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q.Time = cmp.Or(q.Time, r.Time, mostTime)
	q.Memory = cmp.Or(q.Memory, r.Memory, mostMemory)
	if r.worker == nil {
		w, err := start(r.Command())
		if err != nil {
			return nil, fmt.Errorf("starting a process to render in: %w", err)
		}
		r.worker = w
	}
	reply, err := r.worker.ask(ctx, q)
	if err != nil {
		r.worker = nil // it has ended
		return nil, err
	}
	if reply.Failed != nil {
		return nil, reply.Failed
	}
	return reply, nil
}

// Close ends the process.
func (r *Renderer) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.worker != nil {
		_ = r.worker.end()
		r.worker = nil
	}
}

func start(cmd *exec.Cmd) (*worker, error) {
	w := &worker{cmd: cmd, stderr: &tail{}}
	cmd.Stderr = w.stderr
	to, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.to, w.from = to, from
	return w, cmd.Start()
}

// end ends the process, if it has not ended, and returns how it ended.
func (w *worker) end() error {
	w.to.Close()
	_ = w.cmd.Process.Kill()
	return w.cmd.Wait()
}

func (w *worker) ask(ctx context.Context, q Request) (*Reply, error) {
	late := time.AfterFunc(q.Time+grace, func() { _ = w.cmd.Process.Kill() })
	defer late.Stop()
	stop := context.AfterFunc(ctx, func() { _ = w.cmd.Process.Kill() })
	defer stop()
	var reply Reply
	err := send(w.to, q, mostRequest)
	if err == nil {
		err = receive(w.from, &reply, 2*MostText)
	}
	if err == nil && ctx.Err() == nil {
		return &reply, nil
	}
	if errors.Is(err, errLong) {
		_ = w.end()
		return nil, &Failure{TooLarge, err.Error()}
	}
	w.to.Close() // whatever is wrong, it has ended, or ends with its input
	if late.Stop() {
		late.Reset(grace)
	}
	ended := w.cmd.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, w.why(ended, q)
}

// why says why a process has ended before it answered.
func (w *worker) why(ended error, q Request) error {
	var exit *exec.ExitError
	code := 0
	if errors.As(ended, &exit) {
		code = exit.ExitCode()
	}
	text := w.stderr.String()
	switch {
	case code == exitTime || code < 0 && text == "":
		return &Failure{TooSlow, fmt.Sprintf("it takes more than %v: its templates may not end", q.Time)}
	case code == exitMemory, strings.Contains(text, "out of memory"), strings.Contains(text, "cannot allocate"),
		strings.HasPrefix(text, "SIGSEGV"), strings.HasPrefix(text, "fatal error: runtime: cannot map"): // as the runtime takes a refusal
		return &Failure{TooLarge, fmt.Sprintf("it takes more than %d MiB of memory", q.Memory>>20)}
	case strings.Contains(text, "stack exceeds"), strings.Contains(text, "stack overflow"):
		return &Failure{TooLarge, "its templates or values refer to themselves without end"}
	}
	first, _, _ := strings.Cut(text, "\n")
	return &Failure{Broken, "rendering it ended without an answer: " + cmp.Or(first, fmt.Sprint(ended))}
}

// A tail keeps the beginning of what a process says about its end.
type tail struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := 4<<10 - t.text.Len(); room > 0 {
		t.text.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

var errLong = errors.New("too large")

// send writes a value, with its length before it.
func send(to io.Writer, v any, most int) error {
	var b bytes.Buffer
	b.Write(make([]byte, 8))
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		return err
	}
	if b.Len() > most {
		return fmt.Errorf("%w: more than %d MiB", errLong, most>>20)
	}
	binary.BigEndian.PutUint64(b.Bytes(), uint64(b.Len()-8))
	_, err := to.Write(b.Bytes())
	return err
}

// receive reads a value of at most that many bytes.
func receive(from io.Reader, v any, most int) error {
	var head [8]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint64(head[:])
	if n > uint64(most) {
		return fmt.Errorf("%w: renders to more than %d MiB", errLong, most>>20)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(from, data); err != nil {
		return err
	}
	return gob.NewDecoder(bytes.NewReader(data)).Decode(v)
}
