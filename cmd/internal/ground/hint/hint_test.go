package hint

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"
)

func TestOf(t *testing.T) {
	missing := fmt.Errorf("opening it: %w", fs.ErrNotExist)
	for name, c := range map[string]struct {
		err   error
		hints []string
		text  string
		usage bool
	}{
		"none":       {missing, nil, "opening it: file does not exist", false},
		"some":       {With(missing, "make it", "or leave it out"), []string{"make it", "or leave it out"}, "opening it: file does not exist", false},
		"wrapped":    {fmt.Errorf("a: %w", With(missing, "make it")), []string{"make it"}, "a: opening it: file does not exist", false},
		"last wins":  {With(With(missing, "make it"), "go on"), []string{"go on"}, "opening it: file does not exist", false},
		"of two":     {fmt.Errorf("%w; then %w", errors.New("b"), With(missing, "make it")), []string{"make it"}, "b; then opening it: file does not exist", false},
		"usage":      {Usage("--rate 500", "--rate: %w", missing), []string{"--rate 500"}, "--rate: opening it: file does not exist", true},
		"usage deep": {With(fmt.Errorf("a.txt: %w", Usage("--rate 500", "--rate: %w", missing)), "or -"), []string{"or -"}, "a.txt: --rate: opening it: file does not exist", true},
	} {
		if got := Of(c.err); !slices.Equal(got, c.hints) {
			t.Errorf("%s: got the hints %q, want %q", name, got, c.hints)
		}
		if c.err.Error() != c.text || !errors.Is(c.err, fs.ErrNotExist) {
			t.Errorf("%s: got %q, want %q with its cause", name, c.err, c.text)
		}
		if got := IsUsage(c.err); got != c.usage {
			t.Errorf("%s: usage is %v", name, got)
		}
	}
	if Of(nil) != nil || IsUsage(nil) {
		t.Error("no error has a hint, or is of the command line")
	}
}
