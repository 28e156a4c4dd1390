package inpod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/attach"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/web"
)

// dial connects to a port of the pod, as kubectl port-forward does and by the same right, but nothing listens here for it. One connection
// to the API server carries one connection to the pod: runtimes end all of it when one is refused.
func (p *Pod) dial(ctx context.Context, _, address string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dialer, err := p.dialer()
	if err != nil {
		return nil, err
	}
	conn := make(chan *portConn, 1)
	err = until(ctx, func() error {
		c, err := connect(dialer, port)
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			c.Close()
			return ctx.Err()
		}
		conn <- c
		return nil
	})
	switch {
	case ctx.Err() != nil:
		if len(conn) > 0 {
			(<-conn).Close()
		}
		return nil, ctx.Err()
	case err != nil:
		return nil, p.refusedPort(err)
	}
	return <-conn, nil
}

// until does what knows no context, or does not always heed it, and leaves it to itself when the context ends.
func until(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dialer asks by WebSocket, and a cluster before 1.31 by SPDY.
func (p *Pod) dialer() (httpstream.Dialer, error) {
	where := p.REST.Get().AbsPath(p.path("portforward")...).URL()
	socket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(where, p.Config)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(p.Config)
	if err != nil {
		return nil, err
	}
	client := web.New(web.Options{Of: "the API server"})
	client.Transport = transport
	return portforward.NewFallbackDialerForStreaming(socket, spdy.NewDialerForStreaming(upgrader, client, http.MethodPost, where), func(error) bool { return true }), nil
}

// refusedPort is why the API server forwards nothing.
func (p *Pod) refusedPort(err error) error {
	if apierrors.IsForbidden(err) || strings.Contains(err.Error(), "forbidden") {
		return fmt.Errorf("%w: pods/portforward of pod %s is forbidden", errForbidden, p.Name)
	}
	return fmt.Errorf("forwarding a port of pod %s: %w", p.Name, brief(err))
}

// brief is an error that may hold all that a server has answered, cut.
func brief(err error) error {
	const most = 600 // bytes
	if text := err.Error(); len(text) > most {
		return errors.New(strings.ToValidUTF8(text[:most], "") + "…")
	}
	return err
}

// errForbidden: no port of the pod may be forwarded.
var errForbidden = errors.New("not allowed")

// connect opens the two streams of a forwarded connection.
func connect(dialer httpstream.Dialer, port string) (_ *portConn, err error) {
	conn, protocol, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	if protocol != portforward.PortForwardProtocolV1Name {
		return nil, fmt.Errorf("the API server answered with protocol %.30q", protocol)
	}
	head := http.Header{}
	head.Set(v1.StreamType, v1.StreamTypeError)
	head.Set(v1.PortHeader, port)
	head.Set(v1.PortForwardRequestIDHeader, "0")
	refusals, err := conn.CreateStream(head)
	if err != nil {
		return nil, err
	}
	refusals.Close() // nothing is written to it
	head.Set(v1.StreamType, v1.StreamTypeData)
	data, err := conn.CreateStream(head)
	if err != nil {
		return nil, err
	}
	c := &portConn{Stream: data, over: conn, port: port, refused: make(chan error, 1)}
	go func() {
		text, err := io.ReadAll(io.LimitReader(refusals, mostRefusal))
		if len(text) > 0 {
			err = c.refusal(string(text))
		}
		c.refused <- err
	}()
	return c, nil
}

// mostRefusal is how much is read of why a port can't be reached, in bytes.
const mostRefusal = 4 << 10

// A portConn is a connection to a port of a pod.
type portConn struct {
	httpstream.Stream
	over    httpstream.Connection
	port    string
	refused chan error // what the node says when it is over: nil, or why the port can't be reached
}

// refusal is what a node says about a port. The pod is its owner's, and so is what answers; the node's runtime words it.
func (c *portConn) refusal(text string) error {
	if strings.Contains(text, "connection refused") {
		return &attach.Unreachable{Err: fmt.Errorf("nothing listens on port %s of the pod", c.port)}
	}
	return &attach.Unreachable{Err: fmt.Errorf("port %s of the pod can't be reached: %.200q", c.port, text)}
}

// refusedWithin is how long the node may take to say why it has ended a connection.
const refusedWithin = time.Second

func (c *portConn) Read(b []byte) (int, error) {
	n, err := c.Stream.Read(b)
	if n > 0 || err == nil {
		return n, err
	}
	select {
	case refused := <-c.refused:
		c.refused <- nil
		if refused != nil {
			return 0, refused
		}
	case <-time.After(refusedWithin):
	}
	return 0, err
}

func (c *portConn) Close() error {
	c.Stream.Reset()
	return c.over.Close()
}

// What else net.Conn requires. A reader has a context, and closes the connection when that ends.
func (c *portConn) LocalAddr() net.Addr              { return portAddr(c.port) }
func (c *portConn) RemoteAddr() net.Addr             { return portAddr(c.port) }
func (c *portConn) SetDeadline(time.Time) error      { return nil }
func (c *portConn) SetReadDeadline(time.Time) error  { return nil }
func (c *portConn) SetWriteDeadline(time.Time) error { return nil }

// A portAddr is a port of a pod.
type portAddr string

func (portAddr) Network() string  { return "pod" }
func (a portAddr) String() string { return "port " + string(a) }
