// Package netns answers: how do two servers listen at the same port at the same time? Each is started in a network of its own, in which
// there is a loopback and nothing else; who wants to talk to it has to be there too. In go nothing; out comes a network that a thread
// can enter and in which can be dialled. It takes Linux and root.
package netns

import (
	"context"
	"net"
)

// A Net is such a network; nil is the one that we are in.
type Net struct{ net network }

// New makes one. It lasts until it is closed, and nobody is in it any more.
func New() (*Net, error) {
	n, err := create()
	if err != nil {
		return nil, err
	}
	return &Net{n}, nil
}

// Enter moves the calling thread there, and what it starts will be there. It does not come back: its goroutine must be locked to the thread,
// and stay so until both end.
func (n *Net) Enter() error {
	if n == nil {
		return nil
	}
	return n.net.enter()
}

// Dial connects to a server there.
func (n *Net) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if n == nil {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}
	return n.net.dial(ctx, network, address)
}

// Close lets it go.
func (n *Net) Close() error {
	if n == nil {
		return nil
	}
	return n.net.close()
}
