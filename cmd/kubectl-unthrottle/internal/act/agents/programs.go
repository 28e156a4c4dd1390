package agents

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/input"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// howToGet is how a document comes into being.
const howToGet = "https://github.com/unthrottle/unthrottle/blob/main/docs/agent-answers.md#who-may-ask has how to get the document of one agent"

// ReadProgramsFile adds what a file of agents' documents says to a set of programs, so that advice about a manifest is about the program
// that it will start.
func ReadProgramsFile(ctx context.Context, path string, set *binary.Set) error {
	f, err := input.Open(ctx, path, strings.NewReader("")) // "-" is nothing
	if err != nil {
		return hint.With(err, howToGet)
	}
	defer f.Close()
	if err := ReadPrograms(f, set); err != nil {
		return hint.With(fmt.Errorf("%s: %w", path, err), howToGet)
	}
	return nil
}

// ReadPrograms adds what documents say to a set: one, a list of them, or one after the other. A process counts if its container and its
// build are known. If a container has several, the one with the most CPU time counts.
func ReadPrograms(from io.Reader, set *binary.Set) error {
	in := bufio.NewReader(from)
	first, err := peek(in)
	if err != nil {
		return fmt.Errorf("empty: %w", err)
	}
	d := json.NewDecoder(in)
	if first == '[' {
		d.Token()
	}
	n := 0
	for d.More() {
		var doc result.Agent
		if err := d.Decode(&doc); err != nil {
			return badDocument(err)
		}
		if err := checkDocument(&doc); err != nil {
			return err
		}
		n += addPrograms(&doc, set)
	}
	if first == '[' {
		if _, err := d.Token(); err != nil {
			return badDocument(err)
		}
	} else if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return badDocument(err)
	}
	if n == 0 {
		return errors.New("none of its processes is a Go program in a container of Kubernetes")
	}
	return nil
}

// peek is the first byte that isn't a space.
func peek(in *bufio.Reader) (byte, error) {
	for {
		b, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		if !strings.ContainsRune(" \t\r\n", rune(b)) {
			return b, in.UnreadByte()
		}
	}
}

func badDocument(err error) error {
	if err == nil {
		err = errors.New("there is more after the document")
	}
	return fmt.Errorf("not an agent's answer: %w", err)
}

func checkDocument(doc *result.Agent) error {
	switch {
	case doc.Version == 0 || doc.Verb == "":
		return errors.New("not an agent's answer: no version")
	case doc.Version != report.Version:
		return fmt.Errorf("version %d, and this command reads version %d", doc.Version, report.Version)
	case doc.Verb == "ps":
		return errors.New("a document of unthrottle ps, which does not know the containers' names: an agent's does")
	case doc.Processes == nil:
		return fmt.Errorf("a document of %s, not of an agent", doc.Verb)
	}
	return nil
}

// addPrograms adds the main program of each container, and returns how many there are.
func addPrograms(doc *result.Agent, set *binary.Set) int {
	most := map[string]*result.AgentProcess{} // by container
	var order []string
	for i := range doc.Processes {
		p := &doc.Processes[i]
		if p.Container == nil || p.Go == nil {
			continue
		}
		id := p.Container.ID
		if most[id] == nil {
			order = append(order, id)
		} else if cpuOf(most[id]) >= cpuOf(p) {
			continue
		}
		most[id] = p
	}
	for _, id := range order {
		p := most[id]
		c := p.Container
		set.AddSeen(binary.Place{
			Namespace: c.Namespace, Kind: c.OwnerKind, Name: c.Owner, Container: c.Name, Image: c.Image, Digest: c.Digest,
		}, program(p))
	}
	return len(order)
}

func cpuOf(p *result.AgentProcess) float64 {
	if p.CPU == nil {
		return 0
	}
	return *p.CPU
}

// program is what is known about a process's program.
func program(p *result.AgentProcess) binary.Binary {
	g := p.Go
	built := &procs.Program{
		GoVersion: g.Version, Path: g.Path, Module: g.Module, Version: g.ModuleVersion, Defaults: map[string]string{},
		Automaxprocs: procs.ParseLink(g.Automaxprocs), Unthrottle: procs.ParseLink(g.Unthrottle),
	}
	built.SetGoLine(g.GoLine)
	for name, value := range map[string]string{"containermaxprocs": g.Containermaxprocs.Built, "updatemaxprocs": g.Updatemaxprocs.Built} {
		if delete(built.Defaults, name); value != "" {
			built.Defaults[name] = value
		}
	}
	b := binary.Binary{Known: true, Program: built, Called: p.SetBy == result.FromCode}
	if p.SetBy == result.FromImageOrRuntime && g.GOMAXPROCS != nil {
		b.Env = []binary.Variable{{Name: "GOMAXPROCS", Value: *g.GOMAXPROCS}}
	}
	return b
}
