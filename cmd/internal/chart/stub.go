package chart

import (
	"html/template"

	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// What stands here is what callers rely on; the drawings take its place.

// CSS is the style of all charts.
const CSS = ""

// HTML draws a chart for a page, with its legend.
func HTML(sheet.Chart) (template.HTML, error) { return "", nil }

// Script is what the charts of a page need of scripts: they are seen without it too.
func Script([]sheet.Chart) string { return "" }

// Text draws a chart as lines of characters no wider than the width; nil where it can't be read that way.
func Text(c sheet.Chart, width int, paint func(sheet.Tone, string) string) []string { return nil }

// Class is the class of a colour in CSS.
func Class(sheet.Color) string { return "" }
