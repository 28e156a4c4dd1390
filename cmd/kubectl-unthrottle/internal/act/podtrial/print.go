package podtrial

import (
	"io"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

// Manifests are all objects of one run of a setting, in the order in which they are made, for users who want to see them
// first. The server's address is not known before it runs.
func (s *Server) Manifests(setting lab.Setting, shot trial.Shot, lease time.Duration) ([]map[string]any, error) {
	space, owner, rest := s.Kit.Space(lease)
	var all []object
	if space != nil {
		all = append(all, space)
	}
	all = append(append(all, owner), rest...)
	job, err := s.Kit.ServerJob(s.Template, "run-1", setting, true, mostRun)
	if err != nil {
		return nil, err
	}
	args := append(append([]string{s.Scheme + "://POD-IP:" + s.port() + s.Path}, s.Load...), shot.Flags()...)
	return append(all, job, s.Kit.LoadJob(s.Template, "run-1", "load-1-1", args, shot.WarmUp+shot.Lasting+beside)), nil
}

// Print writes objects as YAML, in several documents.
func Print(w io.Writer, all []map[string]any) error {
	for _, o := range all {
		if _, err := io.WriteString(w, "---\n"); err != nil {
			return err
		}
		e := yaml.NewEncoder(w)
		e.SetIndent(2)
		if err := e.Encode(plainNumbers(o)); err != nil {
			return err
		}
		if err := e.Close(); err != nil {
			return err
		}
	}
	return nil
}

// plainNumbers makes whole numbers of those that came as JSON, so that none is written with an exponent.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case object:
		out := object{}
		for key, value := range v {
			out[key] = plainNumbers(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = plainNumbers(value)
		}
		return out
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return v
}

// usualTimeout is how long a server's pod may take to get ready: an image may have to come first.
const usualTimeout = 5 * time.Minute
