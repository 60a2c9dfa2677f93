package otel_test

import (
	"context"
	"fmt"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	redotel "github.com/redquorum/redquorum/contrib/otel"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

func Example() {
	masters, stop := redlocktest.Masters(3)
	defer stop()
	// Your program has these already, with an exporter and a reader of its choice.
	spans, reader := tracetest.NewInMemoryExporter(), sdkmetric.NewManualReader()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))

	locker, err := redlock.New(masters.Endpoints(), redlock.WithTracer(redotel.Tracer(redotel.WithTracerProvider(tracers))))
	if err != nil {
		panic(err)
	}
	defer locker.Close()
	registration, err := redotel.RegisterMetrics(locker, redotel.WithMeterProvider(meters))
	if err != nil {
		panic(err)
	}
	defer func() {
		if err := registration.Unregister(); err != nil {
			panic(err)
		}
	}()
	if err := locker.Ready(context.Background()); err != nil {
		panic(err)
	}

	ctx, job := tracers.Tracer("program").Start(context.Background(), "settle")
	lock, err := locker.Lock(ctx, "orders/42")
	if err != nil {
		panic(err)
	}

	var metrics metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &metrics); err != nil {
		panic(err)
	}
	for _, m := range metrics.ScopeMetrics[0].Metrics {
		if m.Name == "redquorum.locks.held" {
			fmt.Println(m.Name, m.Data.(metricdata.Sum[int64]).DataPoints[0].Value)
		}
	}

	if err := lock.Unlock(ctx); err != nil {
		panic(err)
	}
	job.End()
	for _, span := range spans.GetSpans() {
		fmt.Println(span.Name, span.Parent.SpanID() == job.SpanContext().SpanID())
	}
	// Output:
	// redquorum.locks.held 1
	// redquorum acquire true
	// redquorum release true
	// settle false
}
