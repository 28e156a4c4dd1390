// Package otel gives OpenTelemetry what package metrics gives Prometheus: what limits do to this program.
//
//	import limits "github.com/unthrottle/unthrottle/otel"
//
//	registration, err := limits.Register(otel.Meter("limits"), limits.Options{})
//
// Through OpenTelemetry's exporters to Prometheus the series have the names that package metrics writes, so that dashboards, alerts and
// queries work for both. Each collection reads the kernel's files again. What is not known is not observed.
//
// The package is a module of its own, so that the library has no dependencies.
package otel

import (
	"context"
	"fmt"
	"math"
	rt "runtime/metrics"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/unthrottle/unthrottle/metrics"
)

// Options say what is measured besides the limits.
type Options struct {
	// Runtime adds go.processor.limit (GOMAXPROCS), go.memory.limit (GOMEMLIMIT) and go.config.gogc (GOGC; -1: off), as the semantic
	// conventions have them. It is for programs without an instrumentation of the runtime, which reports these too.
	Runtime bool
}

// Register makes instruments of a meter, which report the current values at each collection until the registration is undone.
func Register(m metric.Meter, o Options) (metric.Registration, error) {
	limits := map[string]metric.Float64Observable{}
	var all []metric.Observable
	for _, s := range metrics.Describe() {
		instrument, err := newInstrument(m, s)
		if err != nil {
			return nil, err
		}
		limits[s.Name] = instrument
		all = append(all, instrument)
	}
	var runtime []number
	if o.Runtime {
		var err error
		if runtime, err = newNumbers(m); err != nil {
			return nil, err
		}
		for _, n := range runtime {
			all = append(all, n.instrument)
		}
	}
	return m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		for _, s := range metrics.Read() {
			to.ObserveFloat64(limits[s.Name], s.Value, metric.WithAttributes(attributes(s.Labels)...))
		}
		for _, n := range runtime {
			n.observe(to)
		}
		return nil
	}, all...)
}

// names are what OpenTelemetry calls the series, and their units. Its rules for Prometheus add the unit and _total.
var names = map[string]struct{ name, unit string }{
	"unthrottle_cpu_limit_info":              {"unthrottle.cpu.limit.info", ""},
	"unthrottle_cpu_limit_cpus":              {"unthrottle.cpu.limit.cpus", "{cpu}"},
	"unthrottle_cpu_level_limit_cpus":        {"unthrottle.cpu.level.limit.cpus", "{cpu}"},
	"unthrottle_cpu_periods_total":           {"unthrottle.cpu.periods", "{period}"},
	"unthrottle_cpu_throttled_periods_total": {"unthrottle.cpu.throttled.periods", "{period}"},
	"unthrottle_cpu_throttled_seconds_total": {"unthrottle.cpu.throttled", "s"},
	"unthrottle_cpu_held_seconds_total":      {"unthrottle.cpu.held", "s"},
	"unthrottle_gomaxprocs":                  {"unthrottle.gomaxprocs", "{thread}"},
	"unthrottle_gomaxprocs_info":             {"unthrottle.gomaxprocs.info", ""},
	"unthrottle_memory_limit_bytes":          {"unthrottle.memory.limit", "By"},
	"unthrottle_gomemlimit_bytes":            {"unthrottle.gomemlimit", "By"},
	"unthrottle_gomemlimit_given_up":         {"unthrottle.gomemlimit.given_up", ""},
	"unthrottle_gomemlimit_spirals_total":    {"unthrottle.gomemlimit.spirals", "{spiral}"},
}

func newInstrument(m metric.Meter, s metrics.Sample) (metric.Float64Observable, error) {
	n, ok := names[s.Name]
	if !ok {
		return nil, fmt.Errorf("package metrics is newer than this one: unknown metric %s", s.Name)
	}
	if s.Counter {
		return m.Float64ObservableCounter(n.name, metric.WithUnit(n.unit), metric.WithDescription(s.Help))
	}
	return m.Float64ObservableGauge(n.name, metric.WithUnit(n.unit), metric.WithDescription(s.Help))
}

// attributes are made from labels, which are names and values alternating.
func attributes(labels []string) []attribute.KeyValue {
	var all []attribute.KeyValue
	for i := 0; i+1 < len(labels); i += 2 {
		all = append(all, attribute.String(labels[i], labels[i+1]))
	}
	return all
}

// A number is one that the runtime reports.
type number struct {
	from       string // its name in runtime/metrics
	none       uint64 // a value that is not reported
	instrument metric.Int64Observable
}

func newNumbers(m metric.Meter) ([]number, error) {
	var all []number
	for _, n := range []struct {
		from             string
		none             uint64
		name, unit, help string
	}{
		{"/sched/gomaxprocs:threads", 0, "go.processor.limit", "{thread}", "The number of OS threads that can execute user-level Go code simultaneously."},
		{"/gc/gomemlimit:bytes", math.MaxInt64, "go.memory.limit", "By", "Go runtime memory limit configured by the user, if a limit exists."},
		{"/gc/gogc:percent", 0, "go.config.gogc", "%", "Heap size target percentage configured by the user, otherwise 100."},
	} {
		instrument, err := m.Int64ObservableUpDownCounter(n.name, metric.WithUnit(n.unit), metric.WithDescription(n.help))
		if err != nil {
			return nil, err
		}
		all = append(all, number{n.from, n.none, instrument})
	}
	return all, nil
}

func (n number) observe(to metric.Observer) {
	s := []rt.Sample{{Name: n.from}}
	if rt.Read(s); s[0].Value.Kind() == rt.KindUint64 && s[0].Value.Uint64() != n.none {
		to.ObserveInt64(n.instrument, int64(s[0].Value.Uint64()))
	}
}
