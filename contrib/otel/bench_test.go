package otel_test

import (
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	redotel "github.com/redquorum/redquorum/contrib/otel"
	"github.com/redquorum/redquorum/redlock"
)

// BenchmarkTracer measures what one operation costs its caller beside the operation itself.
func BenchmarkTracer(b *testing.B) {
	for name, sampler := range map[string]sdktrace.Sampler{"sampled": sdktrace.AlwaysSample(), "unsampled": sdktrace.NeverSample()} {
		b.Run(name, func(b *testing.B) {
			provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler))
			tracer := redotel.Tracer(redotel.WithTracerProvider(provider))
			op := redlock.Operation{Kind: redlock.OperationAcquire, Name: "orders/42"}
			b.ReportAllocs()
			for b.Loop() {
				_, end := tracer.Start(b.Context(), op)
				end(nil)
			}
		})
	}
}
