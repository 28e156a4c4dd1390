package render

import (
	"errors"
	"io"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Serve is what the process does: it answers requests until its input ends. A request that takes more than it may ends the process,
// with nothing said: the caller knows what the exit code means.
func Serve(in io.Reader, out io.Writer, do func(Request) (*Reply, error)) error {
	debug.SetMaxStack(256 << 20)
	for {
		var q Request
		switch err := receive(in, &q, mostRequest); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		done := make(chan struct{})
		bound(q.Memory)
		go watch(q, done)
		reply, err := do(q)
		close(done)
		if err != nil {
			reply = &Reply{Failed: &Failure{Broken, err.Error()}}
			errors.As(err, &reply.Failed)
		}
		size := 0
		for _, d := range reply.Documents {
			size += len(d.Text)
		}
		switch {
		case size > MostText:
			reply = &Reply{Failed: &Failure{TooLarge, "it renders to more than 64 MiB"}}
		case len(reply.Documents) > MostDocuments:
			reply = &Reply{Failed: &Failure{TooLarge, "it renders to more than 100,000 documents"}}
		}
		if err := send(out, reply, 2*MostText); err != nil {
			return err
		}
	}
}

// watch ends the process when a request takes too long, or too much memory. The collector works harder from half of it on, so that
// what is counted is needed.
func watch(q Request, done <-chan struct{}) {
	debug.SetMemoryLimit(q.Memory / 2)
	end := time.NewTimer(q.Time)
	defer end.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for {
		select {
		case <-done:
			return
		case <-end.C:
			os.Exit(exitTime)
		case <-look.C:
			metrics.Read(sample)
			if sample[0].Value.Uint64()-sample[1].Value.Uint64() > uint64(q.Memory) {
				os.Exit(exitMemory)
			}
		}
	}
}
