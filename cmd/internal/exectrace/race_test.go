//go:build race

package exectrace

func init() { detector = true }
