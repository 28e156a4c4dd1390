//go:build unthrottle

package main

import (
	_ "github.com/unthrottle/unthrottle/auto/memory"
	"github.com/unthrottle/unthrottle/memory"
)

func init() {
	gaveUp = func() int {
		d, _ := memory.Last()
		return d.Spirals
	}
}
