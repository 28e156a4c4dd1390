package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/tune"
)

// Read reads a saved document: a pointer to that of its verb. The file of runs of a bench or tune becomes the document that it
// would have ended in.
func Read(data []byte) (any, error) {
	var head struct {
		Header
		Groups  json.RawMessage `json:"groups"`
		Verdict json.RawMessage `json:"verdict"`
	}
	// A journal has more lines than the first, which is a document without groups.
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&head); err != nil || head.Verb == "" {
		return nil, errors.New("this is no document of unthrottle")
	}
	if head.Version != Version {
		return nil, fmt.Errorf("the document is of format %d, and this unthrottle reads format %d: the one that made it shows it", head.Version, Version)
	}
	switch {
	case head.Verb == "explain":
		return decode[Explain](data)
	case head.Verb == "ps":
		return decode[Ps](data)
	case head.Verb == "watch":
		return decode[Watch](data)
	case head.Verb == "run":
		return decode[Run](data)
	case head.Verb == "profile":
		return decode[Profile](data)
	case head.Verb == "trace":
		return decode[Trace](data)
	case head.Verb == "load":
		return decode[Load](data)
	case head.Verb == "tune" && head.Verdict != nil:
		return decode[Tune](data)
	case head.Verb == "tune":
		study, _, err := tune.Read(data)
		if err != nil {
			return nil, err
		}
		return NewTune(study)
	case head.Verb == "bench" && head.Groups != nil:
		return decode[Bench](data)
	case head.Verb == "bench":
		study, _, err := lab.ReadStudy(data)
		if err != nil {
			return nil, err
		}
		return NewBench(study), nil
	}
	return nil, fmt.Errorf("the document is of the verb %q, which this command does not know", head.Verb)
}

func decode[T any](data []byte) (*T, error) {
	doc := new(T)
	if err := json.Unmarshal(data, doc); err != nil {
		return nil, fmt.Errorf("reading the document: %w", err)
	}
	return doc, nil
}
