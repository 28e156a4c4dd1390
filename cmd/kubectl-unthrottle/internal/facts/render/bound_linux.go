package render

import "golang.org/x/sys/unix"

// bound has the kernel refuse what is far more than a request may take, in one piece, before anyone can look. What Go reserves and
// does not use does not count.
func bound(memory int64) {
	most := uint64(memory) * 3 / 2
	var now unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_DATA, &now) == nil && now.Max >= most {
		_ = unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: now.Max})
	}
}
