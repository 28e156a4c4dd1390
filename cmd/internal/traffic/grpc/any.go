package grpc

import (
	"errors"
	"fmt"
	"maps"
	"strings"
)

// This file makes messages that hold any other, which is named by a URL:
//
//	{"@type": "type.googleapis.com/pkg.Message", "name": "value"}
//	{"@type": "type.googleapis.com/google.protobuf.Duration", "value": "1.5s"}
//
// That URL is never visited: the name after its last slash is looked up among the known messages, or the server is asked for it.

const (
	anyName   = "google.protobuf.Any"
	emptyName = "google.protobuf.Empty"
)

// any makes a google.protobuf.Any.
func (s *schema) any(v any, depth int) ([]byte, error) {
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is an object, and not %s", anyName, told(v))
	}
	if len(object) == 0 {
		return nil, nil
	}
	url, ok := object["@type"].(string)
	name := url[strings.LastIndex(url, "/")+1:]
	if !ok || name == "" {
		return nil, errors.New(anyName + ` has no "@type" such as "type.googleapis.com/pkg.Message", which says what it holds`)
	}
	data, err := s.held(name, object, depth+1)
	if err != nil {
		return nil, err
	}
	return appendBytes(appendBytes(nil, 1, []byte(url)), 2, data), nil
}

// held encodes the message with that name, from an object that also has its @type.
func (s *schema) held(name string, object map[string]any, depth int) ([]byte, error) {
	rest := maps.Clone(object)
	delete(rest, "@type")
	if _, special := wellKnown[name]; special || name == anyName {
		value, ok := rest["value"]
		if !ok || len(rest) > 1 {
			return nil, fmt.Errorf(`%s in %s is written as "value", and nothing else`, name, anyName)
		}
		return (&message{name: name, schema: s}).encode(value, depth)
	}
	if value, ok := rest["value"].(map[string]any); ok && name == emptyName && len(value) == 0 { // written in either way
		delete(rest, "value")
	}
	if s.messages[name] == nil && s.more != nil {
		if err := s.more(name); err != nil {
			return nil, fmt.Errorf(`asking the server for %s, which an "@type" names: %w`, name, err)
		}
	}
	m, err := s.message(name)
	if err != nil {
		return nil, fmt.Errorf(`an "@type" names %s: %w`, name, err)
	}
	return m.encode(rest, depth)
}
