// Package server is a server of google.golang.org/grpc, with its reflection, that counts what it is asked.
package server

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
)

// A Server counts calls of TestService/UnaryCall, which returns the response that its request asks for, after the number of milliseconds in
// the metadata sleep-ms. UnimplementedService/UnimplementedCall is answered with messages for ever.
type Server struct {
	grpc_testing.UnimplementedTestServiceServer
	*grpc.Server

	Calls, Late atomic.Int64                               // and those that ended by their deadline
	Conns       atomic.Int64                               // that were accepted
	Last        atomic.Pointer[grpc_testing.SimpleRequest] // the latest one
	LastBox     atomic.Pointer[dynamicpb.Message]          // that was put into the store
}

// New makes one.
func New(options ...grpc.ServerOption) *Server {
	s := &Server{Server: grpc.NewServer(options...)}
	grpc_testing.RegisterTestServiceServer(s, s)
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "grpc.testing.UnimplementedService", HandlerType: (*any)(nil), Metadata: "grpc/testing/test.proto",
		Streams: []grpc.StreamDesc{{StreamName: "UnimplementedCall", ServerStreams: true, Handler: forever}},
	}, nil)
	s.registerStore()
	reflection.Register(s)
	return s
}

// Serve answers until it is stopped.
func (s *Server) Serve(l net.Listener) error { return s.Server.Serve(counting{l, &s.Conns}) }

// counting counts the connections of a listener.
type counting struct {
	net.Listener
	n *atomic.Int64
}

func (c counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.n.Add(1)
	}
	return conn, err
}

// UnaryCall answers.
func (s *Server) UnaryCall(ctx context.Context, in *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	s.Calls.Add(1)
	s.Last.Store(proto.CloneOf(in))
	if md, ok := metadata.FromIncomingContext(ctx); ok && len(md["sleep-ms"]) > 0 {
		ms, _ := strconv.Atoi(md["sleep-ms"][0])
		select {
		case <-time.After(time.Duration(ms) * time.Millisecond):
		case <-ctx.Done():
			s.Late.Add(1)
			return nil, ctx.Err()
		}
	}
	if st := in.GetResponseStatus(); st.GetCode() != 0 {
		return nil, status.Error(codes.Code(st.GetCode()), st.GetMessage())
	}
	return &grpc_testing.SimpleResponse{Payload: &grpc_testing.Payload{Body: make([]byte, in.GetResponseSize())}}, nil
}

// forever sends messages until the client has had enough.
func forever(_ any, stream grpc.ServerStream) error {
	for {
		if err := stream.SendMsg(&grpc_testing.Empty{}); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}
