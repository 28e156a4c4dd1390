package ours

import "errors"

// unfinished begins the name that a file has until it is complete, where it must have one.
const unfinished = ".unthrottle-unfinished-"

// errSwapped is the error of a name that no longer names what was made under it.
var errSwapped = errors.New("something else was put in its place meanwhile: nothing was changed")
