package otel_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	limits "github.com/unthrottle/unthrottle/otel"
)

func ExampleRegister() {
	reader := metric.NewManualReader() // a program has metric.NewPeriodicReader(exporter)
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	registration, err := limits.Register(provider.Meter("limits"), limits.Options{Runtime: true})
	if err != nil {
		log.Fatal(err)
	}
	defer registration.Unregister()

	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		log.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if m.Name == "go.processor.limit" {
			fmt.Println(m.Name, m.Unit)
		}
	}
	// Output: go.processor.limit {thread}
}
