package grpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// This file asks a server what it has, by the reflection that servers of gRPC may offer.

// reflections are the services that do so, the newer first.
var reflections = []string{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}

// ErrNoReflection is the error of a server that does not say what it has.
var ErrNoReflection = errors.New("the server has no reflection, so that nothing says what its messages are")

// What reflection is asked, and what it answers.
const (
	askFile     = 3 // by its name
	askSymbol   = 4 // the file that has it
	askServices = 7

	gotFiles    = 4
	gotServices = 6
	gotError    = 7

	codeUnimplemented = "12"
	codeNotFound      = 5
)

// Ask finds a method by asking the server at a URL, which has nothing behind the host.
func Ask(ctx context.Context, client *http.Client, url string, header http.Header, name string) (*Method, error) {
	service, method, err := ParseName(name)
	if err != nil {
		return nil, err
	}
	for _, path := range reflections {
		r := &reflection{client: client, url: strings.TrimSuffix(url, "/") + path, header: header}
		s, err := r.schema(ctx, service)
		if errors.Is(err, ErrNoReflection) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("asking the server for %s: %w", service, err)
		}
		m, err := s.method(service, method)
		if err == nil {
			m.server = r
		}
		return m, err
	}
	return nil, ErrNoReflection
}

type reflection struct {
	client *http.Client
	url    string
	header http.Header
}

// schema has the service, and all that its file imports.
func (r *reflection) schema(ctx context.Context, service string) (*schema, error) {
	s := newSchema()
	answer, err := r.ask(ctx, askSymbol, service)
	if err != nil {
		return nil, err
	}
	if answer.code == codeNotFound {
		list, err := r.ask(ctx, askServices, "")
		if err != nil {
			return nil, err
		}
		names := slices.DeleteFunc(list.services, func(name string) bool { return strings.HasPrefix(name, "grpc.reflection.") })
		return nil, fmt.Errorf("no such service%s", others("; there are ", names))
	}
	return s, r.addAll(ctx, s, answer)
}

// add adds the file that has a message, and all that it imports.
func (r *reflection) add(ctx context.Context, s *schema, name string) error {
	answer, err := r.ask(ctx, askSymbol, name)
	switch {
	case err != nil:
		return err
	case answer.code == codeNotFound:
		return errors.New("unknown to the server")
	}
	return r.addAll(ctx, s, answer)
}

// addAll adds the files of an answer, and asks for what they import.
func (r *reflection) addAll(ctx context.Context, s *schema, answer answered) (err error) {
	if answer.code != 0 {
		return fmt.Errorf("error %d: %.200q", answer.code, answer.text)
	}
	for {
		for _, file := range answer.files {
			if name, err := nameOf(file); err != nil || s.files[name] {
				continue
			}
			if err := s.addFile(file); err != nil {
				return err
			}
		}
		i := slices.IndexFunc(s.wanted, func(name string) bool { return !s.files[name] })
		if i < 0 {
			return nil
		}
		if answer, err = r.ask(ctx, askFile, s.wanted[i]); err != nil {
			return err
		}
		s.wanted = s.wanted[i+1:] // one that it does not have may be needed for options alone
	}
}

// An answered question.
type answered struct {
	files    [][]byte
	services []string
	code     int
	text     string
}

// ask asks one question, by a stream that has no other.
func (r *reflection) ask(ctx context.Context, what int, about string) (a answered, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(frame(appendBytes(nil, what, []byte(about)))))
	if err != nil {
		return a, err
	}
	req.Header = r.header.Clone()
	res, err := r.client.Do(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "application/grpc") {
		return a, fmt.Errorf("not a gRPC server: answered with status %d and %.50q", res.StatusCode, res.Header.Get("Content-Type"))
	}
	data, err := message1(res.Body)
	switch status := res.Header.Get("Grpc-Status"); {
	case status == codeUnimplemented:
		return a, ErrNoReflection
	case errors.Is(err, io.EOF): // no message: the trailers say why
		io.Copy(io.Discard, io.LimitReader(res.Body, mostBytes))
		if res.Trailer.Get("Grpc-Status") == codeUnimplemented {
			return a, ErrNoReflection
		}
		return a, fmt.Errorf("grpc-status %.50q: %.200q", status+res.Trailer.Get("Grpc-Status"), res.Header.Get("Grpc-Message")+res.Trailer.Get("Grpc-Message"))
	case err != nil:
		return a, err
	}
	return a, a.read(data)
}

// message1 reads the first message of an answer.
func message1(body io.Reader) ([]byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(body, head[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if head[0] != 0 || length > mostBytes {
		return nil, fmt.Errorf("its answer is compressed, or has more than %d MB", mostBytes>>20)
	}
	var data bytes.Buffer // which grows with what comes, and not with what is said to come
	if n, err := io.CopyN(&data, body, int64(length)); err != nil {
		return nil, fmt.Errorf("its answer breaks off after %d bytes of %d", n, length)
	}
	return data.Bytes(), nil
}

func (a *answered) read(data []byte) error {
	return fields(data, func(f field) error {
		return fields(f.bytes, func(in field) error {
			switch {
			case f.number == gotFiles && in.number == 1 && len(a.files) < mostFiles:
				a.files = append(a.files, in.bytes)
			case f.number == gotServices && in.number == 1:
				name, err := nameOf(in.bytes)
				a.services = append(a.services, name)
				return err
			case f.number == gotError && in.number == 1:
				a.code = int(min(in.value, 1000))
			case f.number == gotError && in.number == 2:
				a.text = string(in.bytes)
			}
			return nil
		})
	})
}
