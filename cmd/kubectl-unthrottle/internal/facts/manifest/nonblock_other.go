//go:build !unix

package manifest

// nonblock is nothing where no pipe has a place among files.
const nonblock = 0
