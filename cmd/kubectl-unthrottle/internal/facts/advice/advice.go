// Package advice answers: which CPU limit would a tool that relies on usage give a container? In goes a JSON document of KRR; out
// come facts about the workloads in it. What those limits do to a program is for package lint to say.
package advice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/input"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// Bounds on a document. KRR writes some KB for a container, most of them names of pods.
const (
	mostBytes = 64 << 20
	mostScans = 100_000
	mostCPUs  = 1e6
	mostEach  = 8 // recommendations for one container, as of several clusters
)

// A Set is what KRR recommends.
type Set struct {
	scans map[key][]scan
	all   int
	met   map[met]bool
}

type key struct{ kind, name, container string }

type met struct {
	key
	at int
}

type scan struct {
	namespace, cluster string
	limit, request     workload.Amount
}

// document is what KRR writes with -f json, the parts about CPU.
type document struct {
	Scans *[]struct {
		Object      struct{ Cluster, Namespace, Kind, Name, Container string }
		Recommended struct{ Limits, Requests map[string]json.RawMessage }
	}
}

var errWrong = hint.With(errors.New("not a JSON document of KRR: there are no scans in it"), "krr simple -f json writes one")

// Read reads a file of KRR; "-" is standard input.
func Read(ctx context.Context, name string, stdin io.Reader) (*Set, error) {
	f, err := input.Open(ctx, name, stdin)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > mostBytes:
		return nil, hint.With(fmt.Errorf("more than %d MiB", mostBytes>>20), "krr simple -n NAMESPACE -f json writes less")
	}
	return parse(data)
}

func parse(data []byte) (*Set, error) {
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, hint.With(fmt.Errorf("not a JSON document of KRR: %w", err), "krr simple -q -f json writes one, and nothing else")
	}
	if d.Scans == nil {
		return nil, errWrong
	}
	if len(*d.Scans) > mostScans {
		return nil, hint.With(fmt.Errorf("more than %d scans", mostScans), "krr simple -n NAMESPACE -f json writes less")
	}
	s := &Set{scans: map[key][]scan{}, met: map[met]bool{}}
	for i, in := range *d.Scans {
		o := in.Object
		one := scan{namespace: o.Namespace, cluster: o.Cluster}
		var unset [2]bool
		for j, list := range []map[string]json.RawMessage{in.Recommended.Limits, in.Recommended.Requests} {
			amount, known, err := cpu(list)
			if err != nil {
				return nil, fmt.Errorf("scans[%d], %s/%s, container %s: cpu: %w", i, o.Kind, o.Name, o.Container, err)
			}
			unset[j] = !known
			if j == 0 {
				one.limit = amount
			} else {
				one.request = amount
			}
		}
		if unset[0] { // KRR has seen too little
			continue
		}
		at := key{o.Kind, o.Name, o.Container}
		s.scans[at] = append(s.scans[at], one)
		s.all++
	}
	return s, nil
}

// cpu is a recommendation: a number of CPUs, null for none, or "?", bare or as the value of an object. known is false for "?", and
// for a missing one.
func cpu(list map[string]json.RawMessage) (a workload.Amount, known bool, err error) {
	raw, ok := list["cpu"]
	if !ok {
		return a, false, nil
	}
	if strings.HasPrefix(strings.TrimSpace(string(raw)), "{") {
		var in struct{ Value json.RawMessage }
		if err := json.Unmarshal(raw, &in); err != nil {
			return a, false, err
		}
		if raw = in.Value; raw == nil {
			return a, false, nil
		}
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return a, false, err
	}
	switch v := value.(type) {
	case nil:
		return a, true, nil
	case string:
		if v == "?" {
			return a, false, nil
		}
	case float64:
		switch {
		case v == 0:
			return a, true, nil
		case v > 0 && v <= mostCPUs:
			return workload.Amount{Value: v, Text: strconv.FormatFloat(v, 'f', -1, 64), State: workload.Known}, true, nil
		}
	}
	return a, false, fmt.Errorf("%.40q is no number of CPUs", raw)
}

// To gives the containers of a workload what is recommended for them. A manifest without a namespace is for any.
func (s *Set) To(w *workload.Workload) {
	for i := range w.Pod.Containers {
		c := &w.Pod.Containers[i]
		at, n := key{w.Kind, w.Name, c.Name}, 0
		for j, one := range s.scans[at] {
			if w.Namespace != "" && w.Namespace != one.namespace {
				continue
			}
			s.met[met{at, j}] = true
			if n++; n > mostEach {
				continue
			}
			by := "KRR"
			if w.Namespace == "" {
				by += " in namespace " + one.namespace
			}
			if one.cluster != "" {
				by += " of cluster " + one.cluster
			}
			c.Advice = append(c.Advice, workload.Advice{By: by, How: "by what the container used", Limit: one.limit, Request: one.request})
		}
	}
}

// Unmet says how many recommendations are for containers that none of the workloads has; "" if none.
func (s *Set) Unmet() string {
	switch left := s.all - len(s.met); {
	case s.all == 0:
		return "it recommends nothing about CPU limits: every value is unknown"
	case left > 0:
		return fmt.Sprintf("it is about containers that were not read: %d of %d recommendations", left, s.all)
	}
	return ""
}
