package report

import "testing"

func TestShellWords(t *testing.T) {
	words := []string{"unthrottle", "--cpus=1.5", "", "it's", "a b", "$HOME", "`x`", "tab\there", "\u202eback", `\`, "\x1b'"}
	want := `unthrottle --cpus=1.5 '' 'it'\''s' 'a b' '$HOME' '` + "`x`" + `' $'tab\there' $'\u202eback' '\' $'\x1b\''`
	if got := ShellWords(words); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
