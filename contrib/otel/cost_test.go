package otel_test

import (
	"context"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/redquorum/redquorum/bench/load"
	redotel "github.com/redquorum/redquorum/contrib/otel"
	"github.com/redquorum/redquorum/redlock"
)

// BenchmarkTracer shows what spans add to a lock and its unlock ([load.Costs]): where none is
// sampled, and where all are, and a batch processor throws them away.
func BenchmarkTracer(b *testing.B) {
	tracer := func(opts ...sdktrace.TracerProviderOption) []redlock.Option {
		return []redlock.Option{redlock.WithTracer(redotel.Tracer(redotel.WithTracerProvider(sdktrace.NewTracerProvider(opts...))))}
	}
	load.Costs(b,
		load.Variant{Name: "unsampled", Options: tracer(sdktrace.WithSampler(sdktrace.NeverSample()))},
		load.Variant{Name: "sampled", Options: tracer(sdktrace.WithBatcher(nowhere{}))})
}

// nowhere is an exporter.
type nowhere struct{}

func (nowhere) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (nowhere) Shutdown(context.Context) error                             { return nil }
