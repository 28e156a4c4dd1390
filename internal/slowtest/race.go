//go:build race

package slowtest

func init() { detector = true }
