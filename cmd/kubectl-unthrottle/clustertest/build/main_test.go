//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest/internal/helper"
)

var two = []clustertest.Program{{Name: "a", Package: "example.com/a", Version: "v1"}, {Name: "b", Package: "example.com/b", Version: "v2"}}

// writes compiles a program to its package's path.
func writes(_ context.Context, p clustertest.Program, path string) (cost, error) {
	return cost{wall: 2 * time.Second, cpu: 3 * time.Second, peak: 4 << 20}, os.WriteFile(path, []byte(p.Package), 0o755)
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestBuild(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	var out bytes.Buffer
	b := builder{dir, writes, &out}
	if err := b.build(t.Context(), two[:1]); err != nil {
		t.Fatal(err)
	}
	if err := b.build(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	want := `clustertest: a: building example.com/a v1
clustertest: a: built in 2 s (3 s of CPU time, at most 4 MB of memory), 0 MB
clustertest: a: found
clustertest: b: building example.com/b v2
clustertest: b: built in 2 s (3 s of CPU time, at most 4 MB of memory), 0 MB
`
	if out.String() != want {
		t.Errorf("it said\n%s\nwant\n%s", &out, want)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"a", "b", "lock"}) {
		t.Errorf("files are %q", got)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "b")); err != nil || string(got) != "example.com/b" {
		t.Errorf("b is %q, %v", got, err)
	}
}

func TestBuildFails(t *testing.T) {
	dir := t.TempDir()
	broken := errors.New("broken")
	b := builder{dir, func(ctx context.Context, p clustertest.Program, path string) (cost, error) {
		_, err := writes(ctx, p, path)
		return cost{}, errors.Join(err, broken)
	}, io.Discard}
	err := b.build(t.Context(), two)
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "building a: ") {
		t.Errorf("error is %v", err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"lock"}) {
		t.Errorf("files are %q", got)
	}
}

// TestBuildTwice runs several builders at once: each program is built by one of them, and the others find it.
func TestBuildTwice(t *testing.T) {
	dir := t.TempDir()
	var compiled atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var out bytes.Buffer
			err := builder{dir, func(ctx context.Context, p clustertest.Program, path string) (cost, error) {
				compiled.Add(1)
				return writes(ctx, p, path)
			}, &out}.build(t.Context(), two)
			if got := strings.Count(out.String(), ": found\n") + strings.Count(out.String(), ": built in "); err != nil || got != 2 {
				t.Errorf("error %v; it said\n%s", err, &out)
			}
		})
	}
	wg.Wait()
	if got := compiled.Load(); got != 2 {
		t.Errorf("%d programs were compiled, want 2", got)
	}
}

const variable = "UNTHROTTLE_BUILD_HELPER"

// TestHelper is a build that hangs in the middle, for TestKilled.
func TestHelper(t *testing.T) {
	dir := os.Getenv(variable)
	if dir == "" {
		t.Skip("it is for TestKilled")
	}
	b := builder{dir, func(ctx context.Context, p clustertest.Program, path string) (cost, error) {
		err := os.WriteFile(path, []byte("half"), 0o755)
		fmt.Println(path)
		if err == nil {
			select {}
		}
		return cost{}, err
	}, io.Discard}
	t.Fatal(b.build(t.Context(), two))
}

// TestKilled kills a build in the middle. Nothing half made counts as built, and the next build does what it left.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	line, kill := helper.Start(t, variable, dir)
	part := filepath.Base(line)
	if got := names(t, dir); !slices.Equal(got, []string{"lock", part}) {
		t.Errorf("in the middle the files are %q", got)
	}
	kill()
	if err := (builder{dir, writes, io.Discard}).build(t.Context(), two[1:]); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"b", "lock"}) {
		t.Errorf("afterwards the files are %q", got)
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct{ in, want, err string }{
		{"", "etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kubelet", ""},
		{"kubelet etcd", "etcd kubelet", ""},
		{"etcd docker", "", `no program is called "docker"`},
	} {
		programs, err := choose(strings.Fields(c.in))
		var got []string
		for _, p := range programs {
			got = append(got, p.Name)
		}
		if strings.Join(got, " ") != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("choose(%q) = %q, %v", c.in, got, err)
		}
	}
}

// TestVersions holds kubernetes/go.mod to the versions that the programs are looked for by.
func TestVersions(t *testing.T) {
	data, err := os.ReadFile("../kubernetes/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\tgo.etcd.io/etcd/server/v3 " + clustertest.EtcdVersion + " // indirect\n",
		"\tk8s.io/kubernetes " + clustertest.KubernetesVersion + " // indirect\n",
		"\tk8s.io/apiserver => k8s.io/apiserver v0" + strings.TrimPrefix(clustertest.KubernetesVersion, "v1") + "\n",
	} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("kubernetes/go.mod has no line %q", want)
		}
	}
	for _, p := range clustertest.Programs {
		if !bytes.Contains(data, []byte("\t"+p.Package+"\n")) {
			t.Errorf("kubernetes/go.mod has no tool %s", p.Package)
		}
	}
}
