//go:build !unix

package lab

const nonblock = 0
