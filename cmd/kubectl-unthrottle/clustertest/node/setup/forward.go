package setup

import (
	"io"
	"net"
)

// Forward connects every client of a listener with an address, until the listener is closed.
func Forward(listener net.Listener, to string) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		go connect(from, to)
	}
}

func connect(from net.Conn, to string) {
	defer from.Close()
	target, err := net.Dial("tcp", to)
	if err != nil {
		return // the other end sees that its connection is closed
	}
	defer target.Close()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{from, target}, {target, from}} {
		go func() {
			io.Copy(way[0], way[1])
			way[0].(*net.TCPConn).CloseWrite()
			ended <- struct{}{}
		}()
	}
	<-ended
	<-ended
}
