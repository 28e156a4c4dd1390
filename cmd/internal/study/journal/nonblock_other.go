//go:build !unix

package journal

const nonblock = 0
