package otel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	redotel "github.com/redquorum/redquorum/contrib/otel"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

// recorder keeps the spans of a test.
type recorder struct {
	*tracetest.InMemoryExporter
	provider *sdktrace.TracerProvider
}

func newRecorder(opts ...sdktrace.TracerProviderOption) recorder {
	exporter := tracetest.NewInMemoryExporter()
	return recorder{exporter, sdktrace.NewTracerProvider(append(opts, sdktrace.WithSyncer(exporter))...)}
}

// take returns the spans that have ended since it was last called.
func (r recorder) take() tracetest.SpanStubs {
	defer r.Reset()
	return r.GetSpans()
}

// inBubble runs a test on five embedded masters in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, c *redlocktest.Cluster, r recorder, l *redlock.Locker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, r := redlocktest.Start(t, 5), newRecorder()
		test(t, c, r, c.Locker(t, redlock.WithTracer(redotel.Tracer(redotel.WithTracerProvider(r.provider)))))
	})
}

// summary is a span as text: its parent if that is one of the spans, its name, status, number of
// events, and attributes.
func summary(span tracetest.SpanStub, among tracetest.SpanStubs) string {
	text := span.Name
	for _, other := range among {
		if other.SpanContext.SpanID() == span.Parent.SpanID() {
			text = other.Name + " > " + text
		}
	}
	text += fmt.Sprintf(": %v, %d events,", span.Status.Code, len(span.Events))
	for _, a := range span.Attributes {
		text += fmt.Sprintf(" %s=%s", a.Key, a.Value.String())
	}
	return text
}

func TestSpansHaveTheirParentsAndOutcomes(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *redlocktest.Cluster, r recorder, l *redlock.Locker) {
		ctx, job := r.provider.Tracer("test").Start(t.Context(), "job")
		lock, err := l.TryLock(ctx, "a")
		require.NoError(t, err)
		require.NoError(t, lock.Extend(ctx, 5*time.Second))
		require.NoError(t, lock.Unlock(ctx))
		spans := r.take()
		require.Len(t, spans, 3)
		for i, name := range []string{"acquire", "extend", "release"} {
			assert.Equal(t, "redquorum "+name+": Unset, 0 events, db.system.name=redis redquorum.lock.name=a redquorum.outcome=ok",
				summary(spans[i], spans))
			assert.Equal(t, job.SpanContext().SpanID(), spans[i].Parent.SpanID())
			assert.Equal(t, trace.SpanKindClient, spans[i].SpanKind)
			assert.Equal(t, "github.com/redquorum/redquorum/contrib/otel", spans[i].InstrumentationScope.Name)
		}
		assert.Contains(t, spans[0].Attributes, semconv.DBSystemNameRedis)
	})
}

func TestAWaitIsASpanWithinItsAcquisition(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, r recorder, l *redlock.Locker) {
		holder, err := c.Locker(t).TryLock(t.Context(), "a")
		require.NoError(t, err)
		time.AfterFunc(3*time.Second, func() { assert.NoError(t, holder.Unlock(t.Context())) })
		lock, err := l.Lock(t.Context(), "a")
		require.NoError(t, err)
		defer lock.Unlock(t.Context())
		spans := r.take()
		require.Len(t, spans, 2)
		assert.Equal(t, "redquorum acquire > redquorum wait: Unset, 0 events, db.system.name=redis redquorum.lock.name=a redquorum.outcome=ok",
			summary(spans[0], spans))
		assert.Equal(t, trace.SpanKindInternal, spans[0].SpanKind)
		for _, span := range spans {
			assert.Equal(t, 3*time.Second, span.EndTime.Sub(span.StartTime).Round(time.Millisecond), "%s, in virtual time", span.Name)
		}
	})
}

func TestALockThatIsTakenIsNoError(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, r recorder, l *redlock.Locker) {
		_, err := c.Locker(t).TryLock(t.Context(), "a")
		require.NoError(t, err)
		synctest.Wait() // it is held on all nodes
		const prefix = "redquorum acquire: Unset, 0 events, db.system.name=redis redquorum.lock.name=a redquorum.outcome=taken"

		_, err = l.TryLock(t.Context(), "a")
		require.ErrorIs(t, err, redlock.ErrTaken)
		spans := r.take()
		require.Len(t, spans, 1)
		assert.Regexp(t, "^"+prefix+" redquorum.votes.granted=0 redquorum.votes.refused=[345] redquorum.votes.needed=3$",
			summary(spans[0], spans))

		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = l.Lock(short, "a") // the wait runs out
		require.ErrorIs(t, err, context.DeadlineExceeded)
		spans = r.take()
		require.Len(t, spans, 2)
		assert.Contains(t, summary(spans[0], spans), strings.Replace(prefix, "acquire", "acquire > redquorum wait", 1))
		assert.Contains(t, summary(spans[1], spans), prefix)
	})
}

func TestFaultsAreErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, r recorder, l *redlock.Locker) {
		check := func(err, want error, operation, outcome string) {
			t.Helper()
			require.ErrorIs(t, err, want)
			spans := r.take()
			require.Len(t, spans, 1)
			span := spans[0]
			assert.Equal(t, "redquorum "+operation, span.Name)
			assert.Equal(t, codes.Error, span.Status.Code)
			assert.Equal(t, err.Error(), span.Status.Description)
			assert.Contains(t, span.Attributes, attribute.String("redquorum.outcome", outcome))
			assert.Contains(t, span.Attributes, semconv.ErrorTypeKey.String(outcome))
			require.Len(t, span.Events, 1)
			assert.Equal(t, semconv.ExceptionEventName, span.Events[0].Name)
			assert.Contains(t, span.Events[0].Attributes, semconv.ExceptionMessage(err.Error()))
		}
		lock, err := l.TryLock(t.Context(), "a")
		require.NoError(t, err)
		done, err := l.TryLock(t.Context(), "b")
		require.NoError(t, err)
		require.NoError(t, done.Unlock(t.Context()))
		r.take()

		check(done.Extend(t.Context(), time.Second), redlock.ErrReleased, "extend", "released")
		c.Expire("a")
		check(lock.Unlock(t.Context()), redlock.ErrLost, "release", "lost")
		_, err = l.TryLock(t.Context(), "")
		check(err, redlock.ErrInvalid, "acquire", "invalid")

		for i := range 5 {
			c.Node(i).Delay(200 * time.Millisecond)
		}
		_, err = l.TryLock(t.Context(), "a", redlock.WithMinValidity(9800*time.Millisecond))
		check(err, redlock.ErrNoValidity, "acquire", "no_validity")
		for i := range 5 {
			c.Node(i).Delay(0)
		}

		for i := range 3 {
			c.Node(i).Stop()
		}
		_, err = l.TryLock(t.Context(), "a")
		check(err, redlock.ErrNoQuorum, "acquire", "no_quorum")
		for i := range 3 {
			c.Node(i).Start()
		}
		require.NoError(t, l.Close())
		_, err = l.TryLock(t.Context(), "a")
		check(err, redlock.ErrClosed, "acquire", "closed")
	})
}

func TestACallerThatGivesUpIsNoError(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *redlocktest.Cluster, r recorder, l *redlock.Locker) {
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		late, cancel := context.WithDeadline(t.Context(), time.Now())
		defer cancel()
		for _, ended := range []context.Context{canceled, late} {
			_, err := l.TryLock(ended, "a")
			require.ErrorIs(t, err, ended.Err())
			spans := r.take()
			assert.Equal(t, "redquorum acquire: Unset, 0 events, db.system.name=redis redquorum.lock.name=a redquorum.outcome=canceled",
				summary(spans[0], spans))
		}
	})
}

// nameSampler samples the spans of one lock.
type nameSampler struct{}

func (nameSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if slices.Contains(p.Attributes, attribute.String("redquorum.lock.name", "a")) {
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
	}
	return sdktrace.SamplingResult{Decision: sdktrace.Drop}
}

func (nameSampler) Description() string { return "the spans of a" }

func TestASamplerSeesTheNameOfTheLock(t *testing.T) {
	r := newRecorder(sdktrace.WithSampler(nameSampler{}))
	tracer := redotel.Tracer(redotel.WithTracerProvider(r.provider))
	for _, name := range []string{"a", "b", "a"} {
		_, end := tracer.Start(t.Context(), redlock.Operation{Kind: redlock.OperationAcquire, Name: name})
		end(nil)
	}
	assert.Len(t, r.take(), 2)
}

func TestATracerTakesAnyOperationAndError(t *testing.T) {
	r := newRecorder()
	tracer := redotel.Tracer(redotel.WithTracerProvider(r.provider), redotel.WithAttributes(attribute.String("locker", "orders")),
		redotel.WithAttributes(attribute.Int("shard", 7)))
	_, end := tracer.Start(t.Context(), redlock.Operation{Kind: "verify", Name: "a\xff"}) // not UTF-8
	end(errors.New("no such error"))
	spans := r.take()
	assert.Equal(t, "redquorum verify: Error, 1 events, db.system.name=redis locker=orders shard=7 redquorum.lock.name=a\uFFFD"+
		" redquorum.outcome=_OTHER error.type=_OTHER", summary(spans[0], spans))
}

func TestASpanThatIsNotSampledStillEndsAndPassesItsContext(t *testing.T) {
	r := newRecorder(sdktrace.WithSampler(sdktrace.NeverSample()))
	tracer := redotel.Tracer(redotel.WithTracerProvider(r.provider))
	ctx, job := r.provider.Tracer("test").Start(t.Context(), "job")
	inner, end := tracer.Start(ctx, redlock.Operation{Kind: redlock.OperationAcquire, Name: "a"})
	assert.Equal(t, job.SpanContext().TraceID(), trace.SpanContextFromContext(inner).TraceID())
	end(redlock.ErrLost)
	assert.Empty(t, r.take())
}
