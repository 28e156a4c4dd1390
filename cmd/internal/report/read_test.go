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
	} {
		if _, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	doc, err := Read([]byte(`{"version":2,"verb":"run","exit_code":7}`))
	if r, ok := doc.(*Run); err != nil || !ok || r.ExitCode != 7 {
		t.Errorf("got %+v, %v", doc, err)
	}
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
