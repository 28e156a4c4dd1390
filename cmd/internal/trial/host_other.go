//go:build !linux

package trial

func readHost() host { return host{} }

func machine() (kernel, cpu string, memory int64) { return "", "", 0 }
