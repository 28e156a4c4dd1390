package otel

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/unthrottle/unthrottle/metrics"
)

// collect returns what a collection finds, by name.
func collect(t *testing.T, r *sdk.ManualReader) map[string]metricdata.Metrics {
	t.Helper()
	var found metricdata.ResourceMetrics
	if err := r.Collect(context.Background(), &found); err != nil {
		t.Fatal(err)
	}
	all := map[string]metricdata.Metrics{}
	for _, scope := range found.ScopeMetrics {
		for _, m := range scope.Metrics {
			all[m.Name] = m
		}
	}
	return all
}

// values are the numbers of an instrument, by its attributes.
func values(t *testing.T, m metricdata.Metrics) map[attribute.Distinct]float64 {
	t.Helper()
	all := map[attribute.Distinct]float64{}
	switch data := m.Data.(type) {
	case nil: // nothing was observed
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			all[p.Attributes.Equivalent()] = p.Value
		}
	case metricdata.Sum[float64]:
		for _, p := range data.DataPoints {
			all[p.Attributes.Equivalent()] = p.Value
		}
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			all[p.Attributes.Equivalent()] = float64(p.Value)
		}
	default:
		t.Errorf("%s is a %T", m.Name, data)
	}
	return all
}

// value is the only number of an instrument without attributes.
func value(t *testing.T, m metricdata.Metrics) float64 {
	t.Helper()
	v, ok := values(t, m)[attribute.EmptySet().Equivalent()]
	if !ok {
		t.Errorf("%s: nothing was observed", m.Name)
	}
	return v
}

func TestRegister(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(300 << 20))
	defer debug.SetGCPercent(debug.SetGCPercent(70))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	reader := sdk.NewManualReader()
	registration, err := Register(sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("limits"), Options{Runtime: true})
	if err != nil {
		t.Fatal(err)
	}
	got := collect(t, reader)
	for name, want := range map[string]float64{
		"go.processor.limit": 3, "go.memory.limit": 300 << 20, "go.config.gogc": 70, "unthrottle.gomaxprocs": 3, "unthrottle.gomemlimit": 300 << 20,
	} {
		if v := value(t, got[name]); v != want {
			t.Errorf("%s: %v, want %v", name, v, want)
		}
	}
	for _, s := range metrics.Read() {
		m := got[names[s.Name].name]
		set := attribute.NewSet(attributes(s.Labels)...)
		if v, ok := values(t, m)[set.Equivalent()]; !ok || !s.Counter && v != s.Value || v > s.Value {
			t.Errorf("%s: %v, want %v", s.Series(), v, s.Value)
		}
		if sum, ok := m.Data.(metricdata.Sum[float64]); ok != s.Counter || ok && !sum.IsMonotonic {
			t.Errorf("%s is a %T", s.Name, m.Data)
		}
	}

	debug.SetMemoryLimit(math.MaxInt64)
	debug.SetGCPercent(-1)
	got = collect(t, reader)
	if v := value(t, got["go.config.gogc"]); v != -1 {
		t.Errorf("GOGC=off: %v", v)
	}
	for _, name := range []string{"go.memory.limit", "unthrottle.gomemlimit"} {
		if v := values(t, got[name]); len(v) > 0 {
			t.Errorf("without a limit, %s: %v", name, v)
		}
	}
	if err := registration.Unregister(); err != nil {
		t.Fatal(err)
	}
	for name, m := range collect(t, reader) {
		if v := values(t, m); len(v) > 0 {
			t.Errorf("after its end, %s: %v", name, v)
		}
	}
}

// TestNoRuntime leaves what another instrumentation reports to that one.
func TestNoRuntime(t *testing.T) {
	reader := sdk.NewManualReader()
	if _, err := Register(sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("limits"), Options{}); err != nil {
		t.Fatal(err)
	}
	for name := range collect(t, reader) {
		if !strings.HasPrefix(name, "unthrottle.") {
			t.Error(name)
		}
	}
}

// TestNames: what OpenTelemetry's rules make of each name for Prometheus is the series that package metrics writes.
func TestNames(t *testing.T) {
	suffix := map[string]string{"s": "_seconds", "By": "_bytes"}
	all := metrics.Describe()
	for _, s := range all {
		n := names[s.Name]
		got := strings.ReplaceAll(n.name, ".", "_") + suffix[n.unit]
		if s.Counter {
			got += "_total"
		}
		if got != s.Name || n.unit == "1" { // of which Prometheus makes a ratio
			t.Errorf("%q in %q is %s in Prometheus, want %s", n.name, n.unit, got, s.Name)
		}
	}
	if len(all) != len(names) {
		t.Errorf("%d names of %d series", len(names), len(all))
	}
}
