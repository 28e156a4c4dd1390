package report

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
)

// ShellWords quotes a command so that a shell reads the same words.
func ShellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = ShellWord(word)
	}
	return strings.Join(quoted, " ")
}

// Typed is a command of ours as people type it. The plugin's name is kubectl-unthrottle, and kubectl runs it.
func Typed(command []string) string {
	line := ShellWords(command)
	if rest, ok := strings.CutPrefix(line, "kubectl-unthrottle "); ok {
		return "kubectl unthrottle " + rest
	}
	return line
}

// ShellWord quotes a word that a shell would otherwise read as something else.
func ShellWord(word string) string {
	bare := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-+=./,:@%", r))
	}
	switch {
	case word != "" && strings.IndexFunc(word, func(r rune) bool { return !bare(r) }) < 0:
		return word
	case plain.Printable(word):
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	// Control characters, and those that change the direction of the text, would be invisible between plain quotes.
	quoted := strconv.Quote(word)
	return "$'" + strings.NewReplacer(`\"`, `"`, `'`, `\'`).Replace(quoted[1:len(quoted)-1]) + "'"
}
