package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	_ "google.golang.org/protobuf/types/known/emptypb" // for its resolver to find them
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/unthrottle/unthrottle/bench/grpc/server"
)

var command string // unthrottle

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "grpc-")
	if err != nil {
		panic(err)
	}
	command = filepath.Join(dir, "unthrottle")
	out, err := exec.Command("go", "build", "-o", command, "github.com/unthrottle/unthrottle/cmd/unthrottle").CombinedOutput()
	code := 1
	if err != nil {
		fmt.Printf("building: %v: %s\n", err, out)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

func start(t *testing.T, options ...grpc.ServerOption) (s *server.Server, address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = server.New(options...)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return s, l.Addr().String()
}

// A told load is what the tests look at of its document.
type told struct {
	Requests, Failed, Errors int64
	Causes                   []struct{ Cause string } `json:"error_causes"`
}

func (d told) cause() string {
	if len(d.Causes) == 0 {
		return ""
	}
	return d.Causes[0].Cause
}

// load calls a method, and returns the document and what was said on stderr.
func load(t *testing.T, args ...string) (d told, code int, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command, append([]string{"load", "--json", "--realtime=false"}, args...)...)
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if out.Len() > 0 {
		if err := json.Unmarshal([]byte(out.String()), &d); err != nil {
			t.Fatalf("%v: %s", err, &out)
		}
	}
	return d, cmd.ProcessState.ExitCode(), said.String()
}

const unary = "grpc.testing.TestService/UnaryCall"

// TestCalls: what the generator counts is what the server counts, and each failure is named.
func TestCalls(t *testing.T) {
	for _, c := range []struct {
		name, data string
		args       []string
		failed     int64
		cause      string
		late       bool
	}{
		{"answers", `{"responseSize": 1000, "payload": {"body": "AAEC"}}`, nil, 0, "", false},
		{"an error", `{"responseStatus": {"code": 13, "message": "oh dear"}}`, nil, 40, "grpc-status 13 INTERNAL", false},
		{"one of two", `{} {"responseStatus": {"code": 5}}`, []string{"--seed", "1"}, -1, "grpc-status 5 NOT_FOUND", false},
		{"late", `{}`, []string{"-H", "sleep-ms: 20000", "--timeout", "1s"}, 40, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, address := start(t)
			d, _, stderr := load(t, append([]string{"--grpc", unary, "-d", c.data, address, "--rate", "100", "-n", "40"}, c.args...)...)
			if d.Requests != 40 || s.Calls.Load() != 40 {
				t.Fatalf("%d requests, and the server counts %d\n%s", d.Requests, s.Calls.Load(), stderr)
			}
			if c.failed >= 0 && d.Failed != c.failed || c.failed < 0 && (d.Failed == 0 || d.Failed == 40) || c.cause != "" && d.cause() != c.cause {
				t.Errorf("%d failed of %+v", d.Failed, d.Causes)
			}
			if c.late {
				for begin := time.Now(); s.Late.Load() < 40 && time.Since(begin) < 10*time.Second; { // its deadline has reached it
					time.Sleep(10 * time.Millisecond)
				}
				if s.Late.Load() != 40 || !strings.Contains(d.cause(), "in time") && !strings.Contains(d.cause(), "timeout") && !strings.Contains(d.cause(), "DEADLINE") {
					t.Errorf("%d ended by their deadlines, %+v", s.Late.Load(), d.Causes)
				}
			}
		})
	}
}

// TestConnections: one connection for all, or as many as are asked for.
func TestConnections(t *testing.T) {
	for conns, want := range map[string]int64{"1": 1, "4": 4} {
		s, address := start(t)
		if d, _, stderr := load(t, "--grpc", unary, address, "--rate", "200", "-n", "100", "--http2-conns", conns); d.Requests != 100 || d.Failed > 0 {
			t.Fatalf("%+v\n%s", d, stderr)
		}
		const meanwhile = 3 // may be opened before the first is there; and another has asked what the server has
		if got := s.Conns.Load() - 1; got < want || got > want+meanwhile {
			t.Errorf("%s: %d connections", conns, got)
		}
	}
}

// TestForEver: a call that never ends is over after its time.
func TestForEver(t *testing.T) {
	_, address := start(t)
	d, _, stderr := load(t, "--grpc", "grpc.testing.UnimplementedService/UnimplementedCall", address, "--rate", "50", "-n", "20", "--timeout", "200ms")
	if d.Requests != 20 || d.Failed != 20 {
		t.Errorf("%+v\n%s", d, stderr)
	}
}

// descriptors writes those of the server's services.
func descriptors(t *testing.T) string {
	t.Helper()
	set := &descriptorpb.FileDescriptorSet{}
	var add func(protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i))
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	add(grpc_testing.File_grpc_testing_test_proto)
	data, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "test.pb")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestNoReflection: a descriptor set does as well; and a server that closes every connection.
func TestNoReflection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bare := grpc.NewServer()
	s := &server.Server{}
	grpc_testing.RegisterTestServiceServer(bare, s)
	go bare.Serve(l)
	t.Cleanup(bare.Stop)
	address, file := l.Addr().String(), descriptors(t)
	if _, code, stderr := load(t, "--grpc", unary, address, "-n", "5"); code != 1 || !strings.Contains(stderr, "the server has no reflection") || !strings.Contains(stderr, "hint: --descriptors FILE") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if d, _, stderr := load(t, "--grpc", unary, "--descriptors", file, "-d", `{"responseSize": 5}`, address, "-n", "20"); d.Requests != 20 || d.Failed != 0 || s.Calls.Load() != 20 {
		t.Errorf("%+v, the server counts %d\n%s", d, s.Calls.Load(), stderr)
	}

	closes, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closes.Close() })
	go func() {
		for {
			c, err := closes.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 100))
			c.Close()
		}
	}()
	if d, code, stderr := load(t, "--grpc", unary, "--descriptors", file, closes.Addr().String(), "-n", "20", "--timeout", "1s"); code != 1 || d.Requests != 20 || d.Failed != 20 {
		t.Errorf("exit code %d, %+v\n%s", code, d, stderr)
	}
	if _, code, stderr := load(t, "--grpc", unary, closes.Addr().String(), "-n", "20", "--timeout", "1s"); code != 1 || !strings.Contains(stderr, "asking the server for grpc.testing.TestService") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

// TestWrong: an error in the command line is reported with what there is.
func TestWrong(t *testing.T) {
	_, address := start(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--grpc", "grpc.testing.TestService/Nosuch"}, 1, "has no method Nosuch; it has CacheableUnaryCall, EmptyCall, "},
		{[]string{"--grpc", "no.Such/Call"}, 1, "no such service; there are box.Store, grpc.testing.TestService, grpc.testing.UnimplementedService"},
		{[]string{"--grpc", "grpc.testing.TestService/StreamingOutputCall"}, 1, "streams, and only unary calls are sent"},
		{[]string{"--grpc", "x"}, 2, `"x" is not a method such as pkg.Service/Method`},
		{[]string{"--grpc", unary, "-d", `{"size": 1}`}, 2, `grpc.testing.SimpleRequest has no field "size"; it has `},
		{[]string{"--grpc", unary, "-d", `{`}, 2, "the message is not JSON"},
		{[]string{"--grpc", unary, "--descriptors", "nosuchfile"}, 1, "reading --descriptors: "},
		{[]string{"--descriptors", "x"}, 2, "--descriptors is for --grpc"},
		{[]string{"--grpc", unary, "-X", "PUT"}, 2, "leave it out"},
	} {
		_, code, stderr := load(t, append(c.args, address, "-n", "1")...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d, want %d and %q\n%s", c.args, code, c.code, c.want, stderr)
		}
	}
	if _, code, stderr := load(t, "--grpc", unary, "http://"+address+"/path", "-n", "1"); code != 2 || !strings.Contains(stderr, "so that the URL has no path") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

// TestMessages: the server gets what protocol buffers' own package makes of the same JSON.
func TestMessages(t *testing.T) {
	s, address := start(t)
	for _, text := range []string{
		`{}`,
		`{"responseType": "COMPRESSABLE", "responseSize": 3, "payload": {"type": 0, "body": "//8="}, "fillUsername": true, "responseStatus": {"code": 0, "message": "é\u0000"}}`,
		`{"response_compressed": {"value": true}, "expectCompressed": {}, "fillServerId": false, "fillGrpclbRouteType": true}`,
		`{"responseSize": "7", "payload": {"body": "_-8"}}`,
		`{"responseSize": 1e2}`,
		`{"orcaPerQueryReport": {"cpuUtilization": -0.5, "memoryUtilization": "Infinity", "requestCost": {"b": 2, "a": 1e-300}, "utilization": {"": 0}}}`,
	} {
		if d, code, stderr := load(t, "--grpc", unary, "-d", text, address, "-n", "1", "-c", "1"); d.Failed != 0 || code != 0 {
			t.Fatalf("%s: exit code %d, %+v\n%s", text, code, d, stderr)
		}
		want := &grpc_testing.SimpleRequest{}
		if err := protojson.Unmarshal([]byte(text), want); err != nil {
			t.Fatal(err)
		}
		if got := s.Last.Load(); !proto.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}

// TestAny: messages that hold any other are those that protocol buffers' own package makes, and the server says what it is that they hold.
func TestAny(t *testing.T) {
	s, address := start(t)
	const put = "box.Store/Put"
	for _, text := range []string{
		`{}`,
		`{"held": {}}`,
		`{"held": {"@type": "type.googleapis.com/grpc.testing.SimpleRequest", "responseSize": 7, "payload": {"body": "AAEC"}}}`,
		`{"more": [{"@type": "type.googleapis.com/google.protobuf.Duration", "value": "1.500s"}, {"@type": "type.googleapis.com/google.protobuf.Struct", "value": {"a": [1, null]}}]}`,
		`{"more": [{"@type": "x.example/google.protobuf.Empty"}, {"@type": "x.example/google.protobuf.Empty", "value": {}}, {"value": "x", "@type": "x.example/google.protobuf.StringValue"}]}`,
		`{"held": {"@type": "type.googleapis.com/box.Box", "held": {"@type": "type.googleapis.com/google.protobuf.Any", "value": {"@type": "type.googleapis.com/grpc.testing.Payload", "body": "/w=="}}}}`,
	} {
		if d, code, stderr := load(t, "--grpc", put, "-d", text, address, "-n", "1", "-c", "1"); d.Failed != 0 || code != 0 {
			t.Fatalf("%s: exit code %d, %+v\n%s", text, code, d, stderr)
		}
		want := dynamicpb.NewMessage(server.Box)
		types := dynamicpb.NewTypes(protoregistry.GlobalFiles)
		if err := (protojson.UnmarshalOptions{Resolver: types}).Unmarshal([]byte(text), want); err != nil {
			t.Fatal(err)
		}
		if got := s.LastBox.Load(); !proto.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
	if _, code, stderr := load(t, "--grpc", put, "-d", `{"held": {"@type": "x/no.Such"}}`, address, "-n", "1"); code != 2 || !strings.Contains(stderr, `asking the server for no.Such, which an "@type" names: unknown to the server`) {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}
