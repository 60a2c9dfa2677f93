// Package otel reports the locks of a redlock.Locker to OpenTelemetry:
//
//	import redotel "github.com/redquorum/redquorum/contrib/otel"
//
//	locker, err := redlock.New(endpoints, redlock.WithTracer(redotel.Tracer()))
//	...
//	registration, err := redotel.RegisterMetrics(locker)
//
// [Tracer] makes a span of each acquisition, wait, extension and release of a caller.
// [RegisterMetrics] makes instruments of the figures of [redlock.Locker.Stats]. The module imports
// the API of OpenTelemetry only: the program chooses the SDK and the exporter.
package otel

import (
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name of the instrumentation.
const scope = "github.com/redquorum/redquorum/contrib/otel"

// Option configures [Tracer] and [RegisterMetrics].
type Option func(*config)

type config struct {
	tracers    trace.TracerProvider
	meters     metric.MeterProvider
	attributes []attribute.KeyValue
}

func newConfig(opts []Option) config {
	var c config
	for _, opt := range slices.Concat([]Option{WithTracerProvider(nil), WithMeterProvider(nil)}, opts) {
		opt(&c)
	}
	return c
}

// WithTracerProvider sets what [Tracer] gets its tracer from (default, or nil: the global provider,
// also if it is set later).
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(c *config) {
		if c.tracers = provider; provider == nil {
			c.tracers = otel.GetTracerProvider()
		}
	}
}

// WithMeterProvider sets what [RegisterMetrics] gets its meter from (default, or nil: the global
// provider, also if it is set later).
func WithMeterProvider(provider metric.MeterProvider) Option {
	return func(c *config) {
		if c.meters = provider; provider == nil {
			c.meters = otel.GetMeterProvider()
		}
	}
}

// WithAttributes adds attributes to every span and every figure, such as the name of the Locker if
// there are several, or the owner of its locks, which spans do not tell otherwise.
func WithAttributes(attributes ...attribute.KeyValue) Option {
	return func(c *config) { c.attributes = append(slices.Clone(c.attributes), attributes...) }
}
