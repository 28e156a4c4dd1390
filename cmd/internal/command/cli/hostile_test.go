package cli

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/show/render"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// samples are the documents that the manual shows: some of each verb.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../../../../docs/samples/*.json")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d samples: %v", len(files), err)
	}
	all := map[string][]byte{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = data
	}
	// The runs of a bench are read, too.
	var bench map[string]any
	if err := json.Unmarshal(all["bench.json"], &bench); err != nil {
		t.Fatal(err)
	}
	runs := bench["runs"].([]any)
	for _, name := range []string{"runs", "groups", "verdicts", "blocks", "metrics", "warnings"} {
		delete(bench, name)
	}
	all["bench.jsonl"] = lines(t, append([]any{bench}, runs...))
	return all
}

func lines(t testing.TB, values []any) []byte {
	var b bytes.Buffer
	for _, v := range values {
		if err := json.NewEncoder(&b).Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// strange are values that a field may hold but never does.
var strange = []any{
	nil, true, "", "\x1b[2J\u202e=1+1\n\t</script><b>`|" + "\u009b", "NaN", 0, -1, -1e308, 1e308, 5e-324, int64(1) << 31, int64(-1) << 31, int64(1) << 53, int64(-1) << 62, 1e16,
	[]any{},
	map[string]any{},
	[]any{nil, nil},
	strings.Repeat("x", 10_000),
}

// A spot is where a value is, and how to put another there.
type spot struct {
	path string
	get  any
	set  func(any)
}

func spots(v any, path string, all []spot) []spot {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			all = append(all, spot{path + "." + name, v[name], func(x any) { v[name] = x }})
			all = spots(v[name], path+"."+name, all)
		}
	case []any:
		for i := range v {
			at := path + "[" + strconv.Itoa(i) + "]"
			all = append(all, spot{at, v[i], func(x any) { v[i] = x }})
			all = spots(v[i], at, all)
		}
	}
	return all
}

// mutated is a document with some of its values changed, and which.
func mutated(t testing.TB, data []byte, random *rand.Rand) ([]byte, string) {
	t.Helper()
	var values []any
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		var v any
		if err := d.Decode(&v); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		values = append(values, v)
	}
	var said []string
	for range 1 + random.IntN(3) {
		all := spots(values[random.IntN(len(values))], "", nil)
		if len(all) == 0 {
			break
		}
		s := all[random.IntN(len(all))]
		switch list, is := s.get.([]any); {
		case s.path == ".version" || s.path == ".verb":
		case is && len(list) > 0 && random.IntN(3) == 0: // the same ones repeatedly
			many := []any{}
			for range 300 {
				many = append(many, list[random.IntN(len(list))])
			}
			s.set(many)
			said = append(said, s.path+" repeated")
		default:
			v := strange[random.IntN(len(strange))]
			s.set(v)
			said = append(said, fmt.Sprintf("%s = %.40v", s.path, v))
		}
	}
	return lines(t, values), strings.Join(said, ", ")
}

// isNumber finds what isn't a number in a text for people.
var isNumber = regexp.MustCompile(`[+-]Inf\b|\bNaN (%|s|ms|CPU)|%!`)

// written checks what a document became in a format.
func written(format string, in, out []byte) error {
	if !utf8.Valid(out) {
		return fmt.Errorf("it is not UTF-8")
	}
	if most := 4<<20 + 50*len(in); len(out) > most {
		return fmt.Errorf("of %d bytes are made %d", len(in), len(out))
	}
	for i, line := range strings.Split(string(out), "\n") {
		line = strings.NewReplacer("\t", "", "\u00a0", "").Replace(line)
		if !plain.Printable(line) {
			return fmt.Errorf("line %d can't be printed: %.200q", i+1, line)
		}
		if (format == "text" || format == "md" || format == "classic") && isNumber.MatchString(line) {
			return fmt.Errorf("line %d: %.200s", i+1, line)
		}
	}
	switch format {
	case "json", "sarif":
		if !json.Valid(out) {
			return fmt.Errorf("it is not JSON")
		}
	case "junit":
		for d := xml.NewDecoder(bytes.NewReader(out)); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				return err
			}
		}
	case "csv":
		rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
		for _, row := range rows {
			for _, cell := range row {
				if plain.Cell(cell) != cell {
					return fmt.Errorf("the cell %q", cell)
				}
			}
		}
		return err
	}
	return nil
}

// shownIn writes a document in a format. A panic is an error, and so is what does not end.
func shownIn(data []byte, format string) (err error) {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		write, err := openReport(data, format)
		if err != nil {
			done <- nil // it is refused, or it has no such format
			return
		}
		var b bytes.Buffer
		if err := write(&b, render.Style{Width: 80}); err != nil {
			done <- nil
			return
		}
		done <- written(format, data, b.Bytes())
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		return fmt.Errorf("it does not end")
	}
}

// TestMutated: any saved document is shown or refused, in every format.
func TestMutated(t *testing.T) {
	slowtest.Plain(t)
	each, seed := 12, uint64(1)
	if n, err := strconv.Atoi(os.Getenv("UNTHROTTLE_MUTATIONS")); err == nil {
		each = n
	}
	if n, err := strconv.ParseUint(os.Getenv("UNTHROTTLE_SEED"), 10, 64); err == nil {
		seed = n
	}
	all := samples(t)
	bad := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		random := rand.New(rand.NewPCG(seed, uint64(len(name))))
		for range each {
			data, what := mutated(t, all[name], random)
			for _, format := range verb.FormatNames {
				if err := shownIn(data, format); err != nil {
					first, _, _ := strings.Cut(err.Error(), "\n")
					if key := format + cmp.Or(strings.TrimRight(first, "0123456789")); bad[key] < 3 {
						t.Errorf("%s as %s with %s: %v", name, format, what, err)
						bad[key]++
					}
				}
			}
		}
	}
}

// TestHostileTexts: each text in each document comes from outside, all at once.
func TestHostileTexts(t *testing.T) {
	slowtest.Plain(t)
	const evil = "=cmd\x1b[2J\x1b]0;pwn\x07\u202e\u2066\u200f\u009b\r\nunthrottle: hint: x\x00\x7f|`<b>]]>\ufeff"
	for name, data := range samples(t) {
		var values []any
		for d := json.NewDecoder(bytes.NewReader(data)); ; {
			var v any
			if d.Decode(&v) != nil {
				break
			}
			values = append(values, v)
		}
		for _, v := range values {
			for _, s := range spots(v, "", nil) {
				switch text, is := s.get.(string); {
				case !is, s.path == ".verb", strings.HasSuffix(s.path, "unit"), strings.HasSuffix(s.path, "compare"), strings.HasSuffix(s.path, "severity"):
				case strings.HasPrefix(text, "20"), strings.Contains(s.path, "hist"): // a time
				default:
					s.set(evil + text)
				}
			}
		}
		data, shown := lines(t, values), 0
		for _, format := range verb.FormatNames {
			write, err := openReport(data, format)
			if err != nil {
				continue
			}
			var b bytes.Buffer
			if err := write(&b, render.Style{Width: 80}); err != nil {
				t.Errorf("%s as %s: %v", name, format, err)
				continue
			}
			shown++
			if err := written(format, data, b.Bytes()); err != nil {
				t.Errorf("%s as %s: %v", name, format, err)
			}
		}
		if shown < 6 {
			t.Errorf("%s was shown in %d formats", name, shown)
		}
	}
}
