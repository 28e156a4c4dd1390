package runner

import (
	"context"
	"net"
)

// A Network is one of its own for a server, so that two servers can listen at the same port at the same time: there is a loopback in it and
// nothing else, and a client of the server must be there too. It takes Linux and root. nil is the one that we are in.
type Network struct{ net network }

// NewNetwork makes a network. It lasts until it is closed and no one is in it any longer.
func NewNetwork() (*Network, error) {
	n, err := create()
	if err != nil {
		return nil, err
	}
	return &Network{n}, nil
}

// Enter moves the calling thread there, and what it starts will be there. It does not come back: its goroutine must be locked to the thread,
// and stay so until both end.
func (n *Network) Enter() error {
	if n == nil {
		return nil
	}
	return n.net.enter()
}

// Dial connects to a server there.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if n == nil {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}
	return n.net.dial(ctx, network, address)
}

// Close lets it go.
func (n *Network) Close() error {
	if n == nil {
		return nil
	}
	return n.net.close()
}
