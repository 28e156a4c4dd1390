package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

var update = flag.Bool("update", false, "write what was made into the golden files")

// tuneDocuments are those that TestTuneDocuments keeps.
func tuneDocuments(t *testing.T) map[string]*Tune {
	t.Helper()
	files, err := filepath.Glob("testdata/tune-*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no documents: %v", err)
	}
	all := map[string]*Tune{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := &Tune{}
		if err := json.Unmarshal(data, d); err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "tune-"), ".json")] = d
	}
	return all
}

func TestTuneData(t *testing.T) {
	if *update { // or what is written here is of the documents as they were
		t.Run("documents", TestTuneDocuments)
	}
	for name, d := range tuneDocuments(t) {
		for form, write := range map[string]func(io.Writer, *Tune) error{"csv": TuneCSV, "txt": TuneGo} {
			var b bytes.Buffer
			if err := write(&b, d); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", "tune-"+name+"."+form)
			if *update {
				if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(path); err != nil || b.String() != string(want) {
				t.Errorf("%s: %v; -update writes it. Got:\n%s", path, err, b.String())
			}
			switch form {
			case "csv":
				rows, err := csv.NewReader(&b).ReadAll()
				want := len(d.Runs)
				for _, l := range d.Limits {
					want += len(l.Settings)
				}
				if err != nil || len(rows) != want+1 {
					t.Errorf("%s: %d rows, want %d, %v", name, len(rows), want, err)
				}
			case "txt":
				tuneBenchmarks(t, name, d, b.String())
			}
		}
	}
}

// tuneBenchmarks reads what TuneGo writes as benchstat does.
func tuneBenchmarks(t *testing.T, name string, d *Tune, text string) {
	t.Helper()
	valid := slices.DeleteFunc(slices.Clone(d.Runs), func(r TuneRun) bool { return !r.Valid || r.Error != "" })
	reader, n := benchfmt.NewReader(strings.NewReader(text), name), 0
	for reader.Scan() {
		switch r := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Errorf("%s: %v", name, r)
		case *benchfmt.Result:
			_, parts := r.Name.Parts()
			last := string(parts[len(parts)-1])
			if want := "-" + strconv.Itoa(max(1, valid[n].Procs)); last != want {
				t.Errorf("%s: the name %s does not end in %s", name, r.Name, want)
			}
			if len(r.Values) != len(valid[n].Metrics) {
				t.Errorf("%s: %d values of %d", name, len(r.Values), len(valid[n].Metrics))
			}
			n++
		}
	}
	if n != len(valid) {
		t.Errorf("%s: %d benchmarks of %d runs", name, n, len(valid))
	}
}

// TestTuneDataIsSafe puts texts from outside, and invalid numbers, into a document.
func TestTuneDataIsSafe(t *testing.T) {
	for _, text := range []string{"</script><b>x\x1b[2J\u202e", "a\nb\r\n\nBenchmarkX 1 2 ns/op\n", "  \t ", `=1+1,"x` + "\n", strings.Repeat("word ", 2000)} {
		d := tuneDocuments(t)["doubts"]
		d.Subject.Name, d.LimitKind, d.Environment = text, text, lab.Environment{OS: text, Arch: text, Kernel: text, CPU: text}
		d.Metrics = append(d.Metrics, lab.Metric{Unit: text, Better: text})
		d.Runs[0].Metrics[text], d.Runs[1].Phase, d.Runs[2].Error, d.Runs[4].Marks, d.Runs[4].Start = 5, text, text, []string{text}, text
		d.Runs[4].Metrics["p99-latency-ns"], d.Runs[4].Seconds, d.LimitCPUs = math.NaN(), math.Inf(1), math.NaN()
		for form, write := range map[string]func(io.Writer, *Tune) error{"csv": TuneCSV, "txt": TuneGo} {
			var b strings.Builder
			if err := write(&b, d); err != nil {
				t.Fatal(err)
			}
			for _, line := range strings.Split(b.String(), "\n") {
				if !plain.Printable(line) || strings.Contains(line, "NaN") || strings.Contains(line, "Inf") {
					t.Errorf("%s: not safe: %.200q", form, line)
				}
			}
			reader := benchfmt.NewReader(strings.NewReader(b.String()), form)
			for form == "txt" && reader.Scan() {
				if err, ok := reader.Result().(*benchfmt.SyntaxError); ok {
					t.Errorf("%q: %v", text, err)
				}
			}
		}
	}
}

func TestSystemdWord(t *testing.T) {
	for word, want := range map[string]string{"GOGC=400": "GOGC=400", "A=b c": `"A=b c"`, "A=50%": "A=50%%", `A="x"`: `"A=\"x\""`} {
		if got := systemdWord(word); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}
