// Package grpc answers: what does a call of gRPC send, for a message that is written as JSON? In goes a method's name, and what
// describes it: a descriptor set, or the server itself, which is asked by reflection. Out comes where to post, and the bytes.
package grpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Method is a unary method of a service.
type Method struct {
	Path  string // that a call is posted to: /pkg.Service/Method
	input *message

	server *reflection // that described it; nil: a descriptor set did
}

// Bounds of what describes services, which others have written.
const (
	mostBytes = 32 << 20 // of all files
	mostFiles = 2000
	mostDepth = 100 // of messages in messages
)

// ParseName splits the name of a method, which is pkg.Service/Method or pkg.Service.Method.
func ParseName(name string) (service, method string, err error) {
	name = strings.TrimPrefix(name, "/")
	i := strings.LastIndexAny(name, "/.")
	if i < 1 || i == len(name)-1 || strings.Contains(name[:i], "/") || strings.ContainsAny(name, " \t\r\n?#%") {
		return "", "", fmt.Errorf("%q is not a method such as pkg.Service/Method", name)
	}
	return name[:i], name[i+1:], nil
}

// Find finds a method in a descriptor set, as protoc --descriptor_set_out --include_imports writes one.
func Find(descriptors []byte, name string) (*Method, error) {
	service, method, err := ParseName(name)
	if err != nil {
		return nil, err
	}
	if len(descriptors) > mostBytes {
		return nil, fmt.Errorf("the descriptor set has more than %d MB", mostBytes>>20)
	}
	s := newSchema()
	err = fields(descriptors, func(f field) error {
		if f.number == 1 && f.bytes != nil {
			return s.addFile(f.bytes)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("not a descriptor set: %w", err)
	}
	if len(s.files) == 0 {
		return nil, errors.New("there is no file in the descriptor set")
	}
	return s.method(service, method)
}

// method finds a method among the known ones.
func (s *schema) method(service, method string) (*Method, error) {
	found, ok := s.services[service]
	if !ok {
		return nil, fmt.Errorf("there is no service %s%s", service, others("; there are ", s.serviceNames()))
	}
	m, ok := found[method]
	switch {
	case !ok:
		var names []string
		for name := range found {
			names = append(names, name)
		}
		return nil, fmt.Errorf("%s has no method %s%s", service, method, others("; it has ", names))
	case m.streams:
		return nil, fmt.Errorf("%s/%s streams, and only unary calls are sent", service, method)
	}
	input, err := s.message(m.input)
	if err != nil {
		return nil, err
	}
	return &Method{Path: "/" + service + "/" + method, input: input}, nil
}

// others lists some names, after a beginning; "" if there aren't any.
func others(begin string, names []string) string {
	const most = 10
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	if len(names) > most {
		names = append(names[:most:most], "…")
	}
	return begin + strings.Join(names, ", ")
}

// Bodies are what calls send for some messages, which follow each other as JSON objects: each with the five bytes before it that gRPC puts
// before a message. No message at all is an empty one. A server that described the method is asked for what messages of type
// google.protobuf.Any hold, too.
func (m *Method) Bodies(ctx context.Context, messages []byte) (bodies [][]byte, err error) {
	if m.server != nil {
		m.input.schema.more = func(name string) error { return m.server.add(ctx, m.input.schema, name) }
	}
	values, err := parse(messages)
	if err != nil {
		return nil, err
	}
	if len(values) == 0 {
		values = []any{map[string]any{}}
	}
	for i, v := range values {
		data, err := m.input.encode(v, 0)
		if err != nil {
			if len(values) > 1 {
				return nil, fmt.Errorf("message %d: %w", i+1, err)
			}
			return nil, err
		}
		bodies = append(bodies, frame(data))
	}
	return bodies, nil
}

// frame puts before a message that it is not compressed, and its length.
func frame(data []byte) []byte {
	framed := make([]byte, 5, 5+len(data))
	binary.BigEndian.PutUint32(framed[1:], uint32(len(data)))
	return append(framed, data...)
}
