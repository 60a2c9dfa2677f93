package otel_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	redotel "github.com/redquorum/redquorum/contrib/otel"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

// setGlobals sets the global providers. OpenTelemetry passes them on to what was made before only
// the first time, so a test that is run again uses the same.
var setGlobals = sync.OnceValues(func() (recorder, sdkmetric.Reader) {
	r, reader := newRecorder(), sdkmetric.NewManualReader()
	otel.SetTracerProvider(r.provider)
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	return r, reader
})

func TestTheGlobalProvidersMayBeSetLater(t *testing.T) {
	c := redlocktest.Start(t, 1)
	tracer := redotel.Tracer()
	registration, err := redotel.RegisterMetrics(c.Locker(t))
	require.NoError(t, err)

	r, reader := setGlobals()
	_, end := tracer.Start(t.Context(), redlock.Operation{Kind: redlock.OperationRelease, Name: "a"})
	end(nil)
	assert.Len(t, r.take(), 1)
	assert.Contains(t, collect(t, reader), "redquorum.locks.held")
	require.NoError(t, registration.Unregister())
	assert.Empty(t, collect(t, reader))
}
