package watcher

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestMain is what watches, too.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != "watch" {
		os.Exit(m.Run())
	}
	if err := AwaitBegin(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Println(runtime.GOMAXPROCS(0))
	fmt.Println(os.Getenv("GOGC"), os.Getenv("MORE"))
	fmt.Fprintln(os.Stderr, "no more")
	os.Exit(1)
}

func TestProcess(t *testing.T) {
	bad := errors.New("a bad line")
	for _, c := range []struct {
		name   string
		refuse string
		want   []string
		err    error
	}{
		{"to the end", "", []string{"3", "off 1"}, nil},
		{"a line that can't be read", "3", nil, bad},
	} {
		p, err := Start([]string{os.Args[0], "watch"}, 3, []string{"MORE=1"})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Begin(); err != nil {
			t.Fatal(err)
		}
		var got []string
		err = p.Lines(func(line string) error {
			if line == c.refuse {
				return bad
			}
			got = append(got, line)
			return nil
		})
		if err != c.err || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
		if said, ended := p.Wait(); ended == nil || c.err == nil && (said == nil || said.Error() != "no more") {
			t.Errorf("%s: it ended with %v, and said %v", c.name, ended, said)
		}
	}
	if _, err := Start([]string{t.TempDir() + "/none"}, 1, nil); err == nil {
		t.Error("what is not there was started")
	}
	if err := AwaitBegin(strings.NewReader("")); err == nil {
		t.Error("it begins though nobody said so")
	}
}
