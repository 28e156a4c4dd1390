package grpc

import (
	"fmt"
	"strings"
)

// This file reads descriptors: the messages, enums and services of a .proto file, as protocol buffers describe themselves.

// A schema is what is known of files.
type schema struct {
	files    map[string]bool
	wanted   []string // that files import, whether they are there or not
	bytes    int
	messages map[string]*message
	enums    map[string]map[string]int32
	services map[string]map[string]method

	more func(name string) error // adds the file that has a message; nil: there is no one to ask
}

type method struct {
	input   string
	streams bool
}

// A message is a type of one.
type message struct {
	name   string
	schema *schema
	byName map[string]*element // by both of its names
	isMap  bool                // it is an entry of one: a key and a value
}

// An element is a field of a message.
type element struct {
	name     string
	number   int
	kind     int // see the kinds
	of       string
	repeated bool
	oneof    int // of which it is a member, from 1; 0: of none
}

// Kinds of elements.
const (
	kindDouble   = 1
	kindFloat    = 2
	kindInt64    = 3
	kindUint64   = 4
	kindInt32    = 5
	kindFixed64  = 6
	kindFixed32  = 7
	kindBool     = 8
	kindString   = 9
	kindMessage  = 11
	kindBytes    = 12
	kindUint32   = 13
	kindEnum     = 14
	kindSfixed32 = 15
	kindSfixed64 = 16
	kindSint32   = 17
	kindSint64   = 18
)

func newSchema() *schema {
	return &schema{files: map[string]bool{}, messages: map[string]*message{}, enums: map[string]map[string]int32{}, services: map[string]map[string]method{}}
}

func (s *schema) serviceNames() (names []string) {
	for name := range s.services {
		names = append(names, name)
	}
	return names
}

// message is the type of a name.
func (s *schema) message(name string) (*message, error) {
	m := s.messages[strings.TrimPrefix(name, ".")]
	if m == nil {
		return nil, fmt.Errorf("nothing describes the message %s: is its file there, too?", strings.TrimPrefix(name, "."))
	}
	return m, nil
}

// addFile reads a FileDescriptorProto.
func (s *schema) addFile(data []byte) error {
	if s.bytes += len(data); s.bytes > mostBytes || len(s.files) >= mostFiles {
		return fmt.Errorf("its descriptors have more than %d files, or %d MB", mostFiles, mostBytes>>20)
	}
	var name, pkg string
	err := fields(data, func(f field) error {
		switch f.number {
		case 1:
			name = string(f.bytes)
		case 2:
			pkg = string(f.bytes)
		case 3:
			s.wanted = append(s.wanted, string(f.bytes))
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.files[name] = true
	return fields(data, func(f field) error {
		switch f.number {
		case 4:
			return s.addMessage(pkg, f.bytes, 0)
		case 5:
			return s.addEnum(pkg, f.bytes)
		case 6:
			return s.addService(pkg, f.bytes)
		}
		return nil
	})
}

// inside is the full name of what is in a package or a message.
func inside(scope, name string) string {
	if scope == "" {
		return name
	}
	return scope + "." + name
}

// nameOf is the first field of every descriptor.
func nameOf(data []byte) (name string, err error) {
	err = fields(data, func(f field) error {
		if f.number == 1 {
			name = string(f.bytes)
		}
		return nil
	})
	return name, err
}

// addMessage reads a DescriptorProto.
func (s *schema) addMessage(scope string, data []byte, depth int) error {
	name, err := nameOf(data)
	if err != nil {
		return err
	}
	if depth > mostDepth {
		return fmt.Errorf("%s has more than %d messages in each other", scope, mostDepth)
	}
	m := &message{name: inside(scope, name), schema: s, byName: map[string]*element{}}
	s.messages[m.name] = m
	return fields(data, func(f field) error {
		switch f.number {
		case 2:
			return m.addElement(f.bytes)
		case 3:
			return s.addMessage(m.name, f.bytes, depth+1)
		case 4:
			return s.addEnum(m.name, f.bytes)
		case 7: // options
			return fields(f.bytes, func(option field) error {
				m.isMap = m.isMap || option.number == 7 && option.value == 1
				return nil
			})
		}
		return nil
	})
}

// addElement reads a FieldDescriptorProto.
func (m *message) addElement(data []byte) error {
	e, json, optional := &element{}, "", false
	err := fields(data, func(f field) error {
		switch f.number {
		case 1:
			e.name = string(f.bytes)
		case 3:
			e.number = int(min(f.value, mostNumber))
		case 4:
			e.repeated = f.value == 3
		case 5:
			e.kind = int(min(f.value, 99))
		case 6:
			e.of = string(f.bytes)
		case 9:
			e.oneof = int(min(f.value, 1<<20)) + 1
		case 10:
			json = string(f.bytes)
		case 17:
			optional = f.value == 1
		}
		return nil
	})
	if optional { // the oneof is made up
		e.oneof = 0
	}
	m.byName[e.name] = e
	if json != "" {
		m.byName[json] = e
	}
	return err
}

// addEnum reads an EnumDescriptorProto.
func (s *schema) addEnum(scope string, data []byte) error {
	name, err := nameOf(data)
	if err != nil {
		return err
	}
	values := map[string]int32{}
	s.enums[inside(scope, name)] = values
	return fields(data, func(f field) error {
		if f.number != 2 {
			return nil
		}
		value, number := "", int32(0)
		err := fields(f.bytes, func(f field) error {
			switch f.number {
			case 1:
				value = string(f.bytes)
			case 2:
				number = int32(f.value)
			}
			return nil
		})
		values[value] = number
		return err
	})
}

// addService reads a ServiceDescriptorProto.
func (s *schema) addService(scope string, data []byte) error {
	name, err := nameOf(data)
	if err != nil {
		return err
	}
	methods := map[string]method{}
	s.services[inside(scope, name)] = methods
	return fields(data, func(f field) error {
		if f.number != 2 {
			return nil
		}
		name, m := "", method{}
		err := fields(f.bytes, func(f field) error {
			switch f.number {
			case 1:
				name = string(f.bytes)
			case 2:
				m.input = string(f.bytes)
			case 5, 6:
				m.streams = m.streams || f.value == 1
			}
			return nil
		})
		methods[name] = m
		return err
	})
}
