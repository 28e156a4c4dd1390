package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
)

// readers read the documents of all verbs.
var readers = map[string]func([]byte) (any, error){
	"bench": decode[Bench], "explain": decode[Explain], "load": decode[Load], "profile": decode[Profile], "ps": decode[Ps],
	"run": decode[Run], "trace": decode[Trace], "tune": decode[Tune], "watch": decode[Watch],
}

// Read reads a saved document, and returns a pointer to the type of its verb. A file of runs of bench or tune becomes the
// document that they add up to. Numbers in it that nothing measures are 0.
func Read(data []byte) (any, error) {
	if err := checkSize(data); err != nil {
		return nil, err
	}
	var head struct {
		Header
		Groups  json.RawMessage `json:"groups"`
		Verdict json.RawMessage `json:"verdict"`
	}
	// For a file of runs this reads the first line, which is a document without groups or a verdict.
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&head); err != nil || head.Verb == "" {
		return nil, errors.New("this is not a document of unthrottle")
	}
	if head.Version != Version {
		return nil, fmt.Errorf("the document is of format %d, and this unthrottle reads format %d: use the version that made it", head.Version, Version)
	}
	read, ok := readers[head.Verb]
	switch {
	case !ok:
		return nil, fmt.Errorf("the document is of the verb %q, which this unthrottle does not know", head.Verb)
	case head.Verb == "tune" && head.Verdict == nil:
		study, _, err := tune.Read(data)
		if err != nil {
			return nil, err
		}
		doc, err := NewTune(study)
		if err != nil {
			return nil, err
		}
		return Sane(doc), nil
	case head.Verb == "bench" && head.Groups == nil:
		study, _, err := lab.ReadStudy(data)
		if err != nil {
			return nil, err
		}
		return Sane(NewBench(study)), nil
	}
	return read(data)
}

// Empty is a document of a verb, with nothing in it; nil: the verb has no document.
func Empty(verb string) any {
	if read, ok := readers[verb]; ok {
		doc, _ := read([]byte("{}"))
		return doc
	}
	return nil
}

// Verbs are those that have documents.
func Verbs() []string { return slices.Sorted(maps.Keys(readers)) }

func decode[T any](data []byte) (any, error) {
	doc := new(T)
	if err := json.Unmarshal(data, doc); err != nil {
		return nil, fmt.Errorf("reading the document: %w", err)
	}
	if d, ok := any(doc).(interface{ check() error }); ok {
		if err := d.check(); err != nil {
			return nil, fmt.Errorf("reading the document: %w", err)
		}
	}
	return Sane(doc), nil
}

// check reports more names than tune varies: there is a column for each.
func (d *Tune) check() error {
	if len(d.Varied) > tune.MostVaried {
		return fmt.Errorf("%d things are varied: there may be %d combinations", len(d.Varied), tune.MostVaried)
	}
	return nil
}

// check reports what in a document points to nothing in it.
func (b *Bench) check() error {
	if len(b.Plan.Settings) > lab.MostSettings {
		return fmt.Errorf("the plan has more than %d settings", lab.MostSettings)
	}
	setting := func(i int) error {
		if i < 0 || i >= len(b.Plan.Settings) {
			return fmt.Errorf("there is no setting %d, of %d", i, len(b.Plan.Settings))
		}
		return nil
	}
	for _, r := range b.Runs {
		if err := setting(r.Setting); err != nil {
			return err
		}
	}
	for _, g := range b.Groups {
		if len(g.Settings) == 0 {
			return fmt.Errorf("the group %q has no settings", g.Name)
		}
		if len(g.Settings) > lab.MostSettings {
			return fmt.Errorf("the group %q has more than %d settings", g.Name, lab.MostSettings)
		}
		if g.Best != nil && (*g.Best < 0 || *g.Best >= len(g.Settings)) {
			return fmt.Errorf("the group %q has no row %d", g.Name, *g.Best)
		}
		for _, row := range g.Settings {
			if err := setting(row.Setting); err != nil {
				return err
			}
		}
	}
	return nil
}
