package report

import "github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"

// HeadlineWords is how long the first sentence of an answer may be. What it rests on is below it.
const HeadlineWords = 12

// fits reports whether a text is short enough for a headline.
func fits(text string) bool { return quantity.Words(text) <= HeadlineWords }

// fitting adds parts to a text, after a colon and then after commas, as long as there is room for them.
func fitting(text string, more []string) string {
	separator := ": "
	for _, part := range more {
		longer := text + separator + part
		if !fits(longer) {
			break
		}
		text, separator = longer, ", "
	}
	return text
}

// firstFitting is the first of the texts that fits, else the last.
func firstFitting(texts ...string) string {
	for _, text := range texts {
		if fits(text) {
			return text
		}
	}
	return texts[len(texts)-1]
}
