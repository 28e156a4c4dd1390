package lint

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A reading is what several rules use.
type reading struct {
	limit  forecast.Limit
	procs  forecast.Setting
	isGo   language
	resize resizing
}

func (f *facts) read() {
	f.limit = forecast.LimitOf(f.w, f.c)
	f.procs = f.pod.Setting(f.c, f.b)
	f.isGo = languageOf(f.c, f.b)
	f.resize = f.resizing()
}

// A language says whether a container's program is a Go program.
type language uint8

const (
	perhaps language = iota // unknown
	goes                    // it was read, or a variable is set that only Go programs read
	other                   // it was read, or the image's name says so
)

func languageOf(c *workload.Container, b binary.Binary) language {
	switch {
	case b.Go():
		return goes
	case b.Known || otherLanguage(c):
		return other
	}
	for _, v := range c.Env {
		if v.Form != workload.FromWhole && slices.Contains([]string{"GOMAXPROCS", "GODEBUG", "GOMEMLIMIT", "GOGC"}, v.Name) {
			return goes
		}
	}
	return perhaps
}

// others are programs that are not Go programs, by the last part of their image's name or the command that starts them. The list
// is not complete, and need not be: it is for images that everyone knows.
var others = []string{
	"adminer", "cassandra", "couchdb", "dotnet", "drupal", "eclipse-temurin", "elasticsearch", "envoy", "fluent-bit", "fluentd",
	"gradle", "haproxy", "httpd", "java", "jenkins", "kibana", "logstash", "mariadb", "maven", "memcached", "mongo", "mongodb",
	"mysql", "neo4j", "nginx", "node", "openjdk", "opensearch", "percona-xtradb-cluster", "perl", "php", "php-fpm", "postgres",
	"postgresql", "python", "python3", "rabbitmq", "redis", "redis-server", "ruby", "solr", "sonarqube", "tomcat", "uvicorn",
	"valkey", "varnish", "wordpress", "zookeeper",
}

func otherLanguage(c *workload.Container) bool {
	if len(c.Command) > 0 {
		return slices.Contains(others, path.Base(c.Command[0]))
	}
	name, _, _ := strings.Cut(c.Image, "@")
	name, _, _ = strings.Cut(path.Base(name), ":")
	return slices.Contains(others, name)
}

// itself says whether the program makes its GOMAXPROCS from its limit and follows it. known is false if that is unknown.
func (f *facts) itself() (does, known bool) {
	if !f.b.Go() {
		return false, false
	}
	text, ok := forecast.GODEBUG(f.c, f.b)
	does = choice.AloneOf(f.b.Program, map[string]string{"GODEBUG": text}) == choice.Follows
	return does, ok || f.b.Program.Unthrottle >= procs.Linked
}

// A resizing is what changes a container's CPU limit while GOMAXPROCS is in its environment.
type resizing struct {
	by      string // "VerticalPodAutoscaler api changes limits in place", "" if nothing is known to
	inPlace bool   // while the program runs; else when the pod is recreated
	startUp bool   // the limit is another one at the start only
}

func (f *facts) resizing() resizing {
	a, c := f.w.Around, f.c
	if v := a.VPA; v != nil && !v.Off[c.Name] {
		name := "VerticalPodAutoscaler " + v.Name
		switch {
		case v.Boost:
			return resizing{by: name + " gives more CPU while it starts", inPlace: true, startUp: true}
		case !v.LimitsToo:
		case v.Mode == "InPlaceOrRecreate" || v.Mode == "InPlace":
			return resizing{by: name + " changes limits in place (updateMode " + v.Mode + ")", inPlace: true}
		case v.Mode == "Recreate" || v.Mode == "Auto" || v.Mode == "Initial":
			return resizing{by: name + " changes limits when a pod is made (updateMode " + v.Mode + ")"}
		}
	}
	if a.Boost != "" {
		return resizing{by: "StartupCPUBoost " + a.Boost + " lifts the limit while it starts", inPlace: true, startUp: true}
	}
	if c.Resize == workload.ResizeInPlace && c.ResizeAt.File != "" { // the API server writes it into live objects
		return resizing{by: "its resizePolicy for cpu, NotRequired, is for limits that change in place", inPlace: true}
	}
	return resizing{}
}

// about makes a finding about GOMAXPROCS.
func (f *facts) about(s finding.Severity, c fix, summary string, args ...any) Finding {
	found := Finding{Variable: "GOMAXPROCS", At: f.c.At}
	found.Severity, found.Summary = s, fmt.Sprintf(summary, args...)
	found.fixed(c)
	if v := f.procs.Var; v != nil {
		found.At = v.At
	}
	return found
}

// once begins a finding about all containers of a pod, but those that end before the others start, for which something holds, and names
// them.
func once(pod []*facts, holds func(*facts) (evidence string, ok bool)) (found Finding, names string) {
	var all []string
	for _, f := range pod {
		evidence, ok := holds(f)
		if f.c.Role == workload.Init || !ok {
			continue
		}
		if all == nil {
			found.At = f.c.At
		}
		all = append(all, f.c.Name)
		found = found.saying("container %s", evidence)
	}
	return found, strings.Join(all, ", ")
}

// fixed adds what to do.
func (f *Finding) fixed(c fix) { f.Fix, f.Remedies = c.text, c.remedies }

// saying adds evidence.
func (f Finding) saying(format string, args ...any) Finding {
	f.Evidence = append(f.Evidence, fmt.Sprintf(format, args...))
	return f
}

// source says where GOMAXPROCS comes from.
func (f *facts) source() string {
	switch {
	case f.procs.Image:
		return "the image sets GOMAXPROCS=" + f.procs.Value
	case f.procs.Target != nil:
		return "it comes from " + f.procs.From
	case f.procs.Var.Form == workload.Literal:
		return fmt.Sprintf("it is written as %q", f.procs.Value)
	}
	return "it comes from " + f.procs.Var.Text
}

// right is a GOMAXPROCS that fits the limit: what unthrottle.Decide says where there are CPUs enough.
func (f *facts) right() int { return max(2, f.limit.Procs()) }

func whole(v float64) bool { return v == math.Trunc(v) }

func is(a workload.Amount) bool { return a.State == workload.Known && a.Value > 0 }

func one(f Finding) []Finding { return []Finding{f} }
