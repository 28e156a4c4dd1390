package report

import (
	"bytes"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	for text, want := range map[string]string{
		``:                             "this is not a document of unthrottle",
		`{"version":2}`:                "this is not a document of unthrottle",
		`{"version":9,"verb":"run"}`:   "the document is of format 9, and this unthrottle reads format 2",
		`{"version":2,"verb":"dance"}`: `the document is of the verb "dance"`,
		`{"version":2,"verb":"run","periods":""}`: "reading the document",
		`{"version":2,"verb":"bench"}`:            "this is not a file of runs",
		`{"version":2,"verb":"bench","plan":{"settings":[{},{}]},"groups":[],"runs":[{"setting":2147483648}]}`:                             "there is no setting 2147483648, of 2",
		`{"version":2,"verb":"bench","plan":{"settings":[{},{}]},"groups":[],"runs":[{"setting":-1}]}`:                                     "there is no setting -1, of 2",
		`{"version":2,"verb":"bench","plan":{"settings":[{}]},"groups":[{"name":"a","settings":[{"setting":1}]}]}`:                         "there is no setting 1, of 1",
		`{"version":2,"verb":"bench","plan":{"settings":[{}]},"groups":[{"name":"a","settings":[]}]}`:                                      `the group "a" has no settings`,
		`{"version":2,"verb":"bench","plan":{"settings":[{}]},"groups":[{"name":"a","best":3,"settings":[{"setting":0}]}]}`:                `the group "a" has no row 3`,
		`{"version":2,"verb":"bench","plan":{"settings":[` + strings.Repeat("{},", 2000) + `{}]},"groups":[]}`:                             "the plan has more than 2000 settings",
		`{"version":2,"verb":"bench","plan":{"settings":[{}]},"groups":[{"name":"a","settings":[` + strings.Repeat("{},", 2000) + `{}]}]}`: `the group "a" has more than 2000 settings`,
		`{"version":2,"verb":"trace","freezes":[` + strings.Repeat("{},", 500_000) + `{}]}`:                                                "more than 100000 objects",
		`{"version":2,"verb":"run","command":[` + strings.Repeat(`"",`, 5_000_000) + `""]}`:                                                "more than 2000000 values",
		`{"version":2,"verb":"run","x":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`:                                 "nests more than 500 deep",
		`{"version":2,"verb":"run","x":"` + strings.Repeat(`\"[{,`, 16<<20):                                                                "more than 64 MiB",
	} {
		if _, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s: got %v, want %q", text, err, want)
		}
	}
	doc, err := Read([]byte(`{"version":2,"verb":"run","exit_code":7}`))
	if r, ok := doc.(*Run); err != nil || !ok || r.ExitCode != 7 {
		t.Errorf("got %+v, %v", doc, err)
	}
}

// TestReadStrings: brackets in strings are not objects, and a string may end in a backslash.
func TestReadStrings(t *testing.T) {
	text := strings.Repeat(`[{,`, 500_000) + `\\`
	doc, err := Read([]byte(`{"version":2,"verb":"run","command":["` + text + `"]}`))
	if r, ok := doc.(*Run); err != nil || !ok || len(r.Command[0]) != 1_500_001 {
		t.Errorf("got %v", err)
	}
}

// FuzzSize: anything that is read and has passed takes memory that is bounded by what it has; nothing is read that has more.
func FuzzSize(f *testing.F) {
	f.Add(`{"version":2,"verb":"trace","freezes":[`, `{}`, uint16(1000))
	f.Add(`{"version":2,"verb":"bench","groups":[],"runs":[`, `{"setting":0,"metrics":{}}`, uint16(1000))
	f.Add(`{"version":2,"verb":"profile","frames":[`, `{"depth":2147483648}`, uint16(9))
	f.Fuzz(func(t *testing.T, head, one string, n uint16) {
		data := []byte(head + strings.Repeat(one+",", int(n)) + one + "]}")
		if len(data) > 1<<20 {
			t.Skip()
		}
		doc, err := Read(data)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteJSON(&b, doc); err != nil {
			t.Errorf("what was read can't be written: %v", err)
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"version":2,"verb":"explain"}`))
	f.Add([]byte(`{"version":2,"verb":"bench","groups":[]}`))
	f.Add([]byte(`{"version":2,"verb":"bench","plan":{"settings":[{"workload":"a"},{"workload":"b"}],"compare":"procs"}}` + "\n" + `{"block":1,"metrics":{"x":1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := Read(data)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteJSON(&b, doc); err != nil {
			t.Errorf("what was read can't be written: %v", err)
		}
	})
}

// TestReadVaried: a document that varies more than tune can has no end of columns, and is refused.
func TestReadVaried(t *testing.T) {
	many := strings.Repeat(`{"name": "a", "values": []},`, 50_000) + `{"name": "b"}`
	_, err := Read([]byte(`{"version": 2, "verb": "tune", "verdict": {}, "varied": [` + many + `]}`))
	if err == nil || !strings.Contains(err.Error(), "50001 things are varied") {
		t.Error(err)
	}
}
