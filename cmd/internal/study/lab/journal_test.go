package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

type head struct {
	What string `json:"what"`
}

type record struct {
	Number int    `json:"number"`
	Text   string `json:"text,omitempty"`
}

// content is what a journal holds.
type content struct {
	head
	records []record
}

var errNone = errors.New("no head")

func read(data []byte) (c content, cut int, err error) {
	cut, err = ReadJournal(data, func(line []byte) error {
		if json.Unmarshal(line, &c.head) != nil || c.What == "" {
			return errNone
		}
		return nil
	}, func(line []byte) error {
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		c.records = append(c.records, r)
		return nil
	})
	return c, cut, err
}

func write(t testing.TB, j *Journal, values ...any) {
	t.Helper()
	for _, v := range values {
		if err := j.Write(v); err != nil {
			t.Fatal(err)
		}
	}
}

// small is the text of a journal of three records.
func small(t testing.TB) (path string, data []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "runs.jsonl")
	j, err := CreateJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, j, head{"this"}, record{1, "a\nb"}, record{Number: 2}, record{Number: 3})
	if j.Name() != path {
		t.Errorf("it is called %s", j.Name())
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if data, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return path, data
}

// TestCuts cuts a journal off after each byte and goes on with it: what was whole is there, and what comes then too.
func TestCuts(t *testing.T) {
	path, data := small(t)
	for n := range len(data) + 1 {
		lines := bytes.Count(data[:n], []byte("\n"))
		c, cut, err := read(data[:n])
		if lines == 0 {
			if !errors.Is(err, errNone) {
				t.Errorf("%q: got %v", data[:n], err)
			}
			continue
		}
		whole := bytes.LastIndexByte(data[:n], '\n') + 1
		if err != nil || cut != n-whole || len(c.records) != lines-1 {
			t.Errorf("%q: got %d records, cut %d, %v", data[:n], len(c.records), cut, err)
		}
		if err := os.WriteFile(path, data[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		j, err := resume(path, int64(n-cut))
		if err != nil {
			t.Fatal(err)
		}
		write(t, j, record{Number: 9})
		j.Close()
		again, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		c, cut, err = read(again)
		if err != nil || cut != 0 || len(c.records) != lines || c.records[lines-1].Number != 9 {
			t.Errorf("gone on with after %d bytes: %+v, cut %d, %v", n, c, cut, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	_, data := small(t)
	for text, want := range map[string]string{
		"":                                "no head",
		"\n":                              "no head",
		"{}\n":                            "no head",
		string(data) + "\n":               "line 5 of the runs: ",
		string(data) + "nonsense\n":       "line 5 of the runs: ",
		string(data) + "{\"number\":\n{}": "line 5 of the runs: ",
	} {
		if _, _, err := read([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// TestFiles holds what happens to files: none is written over, none is made by going on.
func TestFiles(t *testing.T) {
	path, data := small(t)
	if _, err := CreateJournal(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created again: %v", err)
	}
	if _, err := resume(path+".not", 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("gone on with what is not there: %v", err)
	}
	j, err := resume(path, int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	j.Close()
	if again, _ := os.ReadFile(path); !bytes.Equal(again, data) {
		t.Errorf("it was changed: %q", again)
	}
	if j, err = CreateJournal(path + ".new"); err != nil {
		t.Fatal(err)
	}
	if err := j.Write(func() {}); err == nil {
		t.Error("a function was written")
	}
	j.Remove()
	if _, err := os.Stat(path + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if err := j.Write(1); err == nil {
		t.Error("a closed journal was written to")
	}
}

func FuzzRead(f *testing.F) {
	_, data := small(f)
	f.Add(data)
	f.Add(data[:len(data)-3])
	f.Add([]byte("{}"))
	f.Add([]byte("{\"what\":\"x\"}\n{}\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var again bytes.Buffer
		lines := 0
		cut, err := ReadJournal(data, func(line []byte) error { again.Write(append(bytes.Clone(line), '\n')); return nil }, func(line []byte) error {
			lines++
			again.Write(append(bytes.Clone(line), '\n'))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if cut < 0 || cut > len(data) {
			t.Fatalf("cut %d of %d", cut, len(data))
		}
		if lines > 0 && !bytes.Equal(again.Bytes(), data[:len(data)-cut]) {
			t.Errorf("%q was read as %q, cut %d", data, again.Bytes(), cut)
		}
	})
}

// TestPrune fills a directory with more than it may hold.
func TestPrune(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * inUse)
	add := func(name string, size int64, at time.Time) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Truncate(path, size), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (names []string) {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	for i := range mostFiles + 20 {
		add(fmt.Sprintf("%03d.jsonl", i), 10, old.Add(time.Duration(i)*time.Second))
	}
	add("notes.txt", 2*mostBytes, old.Add(-time.Hour))
	PruneJournals(dir)
	if names := left(); len(names) != mostFiles+1 || names[0] != "020.jsonl" || !slices.Contains(names, "notes.txt") {
		t.Errorf("%d files are left, from %s on", len(names), names[0])
	}
	add("large.jsonl", mostBytes, time.Now())
	PruneJournals(dir)
	if names := left(); !slices.Equal(names, []string{"large.jsonl", "notes.txt"}) {
		t.Errorf("%d files are left beside a large one", len(names))
	}
	add("larger.jsonl", mostBytes, time.Now())
	PruneJournals(dir)
	if names := left(); len(names) != 3 {
		t.Errorf("%q are left: what is new may be in use", names)
	}
}

// resume goes on with a journal after its first bytes.
func resume(path string, size int64) (*Journal, error) {
	j, _, err := OpenJournal(path)
	if err != nil {
		return nil, err
	}
	return j, j.Resume(size)
}

// TestOpen: a file that says what to run must not be writable by anyone else, and a pipe is not waited for.
func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.jsonl")
	j, err := CreateJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	j.Close()
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("a new one: %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o620); err != nil {
		t.Fatal(err)
	}
	if _, _, err := OpenJournal(path); err == nil || !strings.Contains(err.Error(), "others may write to") {
		t.Errorf("others may write to it: %v", err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if j, _, err := OpenJournal(path); err != nil {
		t.Error(err)
	} else {
		j.Close()
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, _, err := OpenJournal(path); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("another user's: %v", err)
	}
}
