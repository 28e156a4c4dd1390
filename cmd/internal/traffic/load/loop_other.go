//go:build !linux

package load

// loops are how the lean engine works where there is epoll.
type loops struct{}

func newLoops(*Run) (*loops, error) { return nil, nil }

func (*loops) send() {}

func (*loops) stop() {}

func (*loops) now() (planned int64, open, conns int) { return 0, 0, 0 }

func (*loops) number() int { return 0 }
