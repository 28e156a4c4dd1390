package result

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// TestMostFindings: more findings than anyone reads are an error, and not a document of any size.
func TestMostFindings(t *testing.T) {
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i, env: [{name: GOMAXPROCS, value: half}]}]}}`
	set, err := manifest.Read(t.Context(), manifest.Options{Stdin: strings.NewReader(pod)}, "-")
	if err != nil || len(set.Workloads) != 1 {
		t.Fatalf("%+v, %v", set, err)
	}
	one, err := NewLint(t.Context(), set, lint.Known{})
	if err != nil || len(one.Findings) == 0 {
		t.Fatalf("%+v, %v", one, err)
	}
	set.Workloads = slices.Repeat(set.Workloads, lint.MostFindings/len(one.Findings)+1)
	if d, err := NewLint(t.Context(), set, lint.Known{}); !errors.Is(err, lint.ErrTooMany) {
		t.Errorf("%v, %v", d, err)
	}
}
