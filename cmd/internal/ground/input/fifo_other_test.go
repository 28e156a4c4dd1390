//go:build !unix

package input

import "testing"

func fifo(t *testing.T) string { t.Skip("there are no FIFOs"); return "" }
