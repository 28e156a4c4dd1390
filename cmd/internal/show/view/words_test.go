package view

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// wordLike is a word that is long enough not to be a unit, with the mark of a cut behind it or before it.
var wordLike = regexp.MustCompile(`…?\p{L}{4,}…?`)

// wordsOf are all words that a sheet may show: those of its texts, shorter forms too, and what is on a screen that has room
// for everything, which has some of render's own.
func wordsOf(t *testing.T, s *sheet.Sheet) map[string]bool {
	words := map[string]bool{}
	c := *s
	c.Document = nil
	addWords(words, reflect.ValueOf(c))
	addWords(words, reflect.ValueOf(drawn(t, s, 400)))
	return words
}

// brokenWords finds words on a screen that are not whole, and texts that are cut where there is room: nothing next to them is as wide as
// the screen.
func brokenWords(whole map[string]bool, text string, width int) (found []string) {
	for _, block := range strings.Split(text, "\n\n") {
		widest := 0
		for _, line := range strings.Split(block, "\n") {
			widest = max(widest, utf8.RuneCountInString(line))
		}
		for _, word := range wordLike.FindAllString(block, -1) {
			switch {
			case whole[word]:
			case !strings.Contains(word, "…"):
				found = append(found, fmt.Sprintf("%q is not a whole word", word))
			case widest < width-cutLeaves:
				found = append(found, fmt.Sprintf("%q is cut, and the lines around it have %d columns", word, widest))
			}
		}
	}
	return found
}

// cutLeaves is how much room there may be next to what is cut.
const cutLeaves = 4

// addWords adds the words of all texts in a value, unchanged and as they are quoted if a terminal must not get them.
func addWords(words map[string]bool, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		for _, text := range []string{v.String(), strconv.Quote(v.String())} {
			for _, word := range wordLike.FindAllString(text, -1) {
				words[word] = true
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			addWords(words, v.Index(i))
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			addWords(words, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				addWords(words, v.Field(i))
			}
		}
	}
}

// TestBrokenWords: the check finds what it is for.
func TestBrokenWords(t *testing.T) {
	s := &sheet.Sheet{Subject: "one measured sentence", Warnings: []string{"of throttled periods"}}
	whole := wordsOf(t, s)
	for text, want := range map[string]int{
		"one measured\nsentence of throttled periods":   0,
		"one meas\nured sentence":                       2, // of which neither is a word
		"of thrott… periods":                            1,
		"warning: of throttled periods, of the thrott…": 0, // where no more fits
	} {
		if got := brokenWords(whole, text, 40); len(got) != want {
			t.Errorf("%q: found %q, want %d", text, got, want)
		}
	}
}
