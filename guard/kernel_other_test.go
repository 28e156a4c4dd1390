//go:build go1.25 && !linux

package guard

func guardMain() {}
