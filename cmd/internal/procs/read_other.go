//go:build !linux

package procs

import "os"

// ReadFile reads a whole file.
func ReadFile(path string) ([]byte, error) { return os.ReadFile(path) }

// ReadRecord reads a whole file.
func ReadRecord(path string) ([]byte, error) { return os.ReadFile(path) }
