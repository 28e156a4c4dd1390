package procs

import "github.com/unthrottle/unthrottle/internal/foreign"

// A FileID says which file it was, and that it is still the same.
type FileID = foreign.ID
