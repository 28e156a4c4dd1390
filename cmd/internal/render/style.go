// Package render holds what the command knows of its screen until it asks package draw itself.
package render

// A Style says what the reader's screen can show.
type Style struct {
	Color bool
	Width int // columns; 0 means that lines may be of any length
}
