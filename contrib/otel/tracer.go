package otel

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/redquorum/redquorum/redlock"
)

// Tracer returns a Tracer for [redlock.WithTracer]. Its spans:
//
//   - "redquorum acquire", of Lock, TryLock, Adopt and the like, from the call to its result;
//   - "redquorum wait", a child of that, while the lock could not be acquired at once;
//   - "redquorum extend", of Extend; renewals in the background have no spans;
//   - "redquorum release", of Unlock.
//
// The parent is the span of the context of the call. Attributes: db.system.name is "redis", and
// redquorum.lock.name is the name of the lock or semaphore, of several names the first. A span that
// is recorded also has redquorum.outcome: "ok", or the reason of the error. If a round failed,
// redquorum.votes.granted, .refused and .needed are the votes of the last one.
//
// An outcome that locks are there for is no error: the status of "taken" (somebody else has the
// lock, also if a wait for it ran out) and "canceled" (the context of the caller ended, and nothing
// else is known) stays unset. The others are errors, with the event "exception" and with error.type
// set to the outcome: "no_quorum", "no_validity", "lost", "released", "closed", "invalid", and
// "_OTHER".
func Tracer(opts ...Option) redlock.Tracer {
	c := newConfig(opts)
	return &tracer{
		tracer:     c.tracers.Tracer(scope),
		attributes: slices.Concat([]attribute.KeyValue{attribute.String("db.system.name", "redis")}, c.attributes),
	}
}

type tracer struct {
	tracer     trace.Tracer
	attributes []attribute.KeyValue // of all spans; not changed
}

// Start begins a span.
func (t *tracer) Start(ctx context.Context, op redlock.Operation) (context.Context, func(error)) {
	side := trace.SpanKindClient
	if op.Kind == redlock.OperationWait {
		side = trace.SpanKindInternal
	}
	// A name may be any bytes. One that is not UTF-8 has the exporter drop a whole batch of spans.
	name := strings.ToValidUTF8(op.Name, "\uFFFD")
	// From the beginning, so that samplers see the name.
	attributes := append(slices.Clip(t.attributes), attribute.String("redquorum.lock.name", name))
	ctx, span := t.tracer.Start(ctx, "redquorum "+string(op.Kind), trace.WithSpanKind(side), trace.WithAttributes(attributes...))
	if !span.IsRecording() {
		return ctx, func(error) { span.End() }
	}
	return ctx, func(err error) {
		describe(span, err)
		span.End()
	}
}

// describe adds the outcome to a span.
func describe(span trace.Span, err error) {
	outcome, fault := outcomeOf(err)
	span.SetAttributes(attribute.String("redquorum.outcome", outcome))
	var votes *redlock.QuorumError
	if errors.As(err, &votes) {
		span.SetAttributes(
			attribute.Int("redquorum.votes.granted", votes.Granted),
			attribute.Int("redquorum.votes.refused", votes.Refused),
			attribute.Int("redquorum.votes.needed", votes.Need))
	}
	if fault {
		span.SetAttributes(attribute.String("error.type", outcome))
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
}

// outcomes are the reasons of errors. The first that matches counts.
var outcomes = []struct {
	reason  error
	outcome string
	fault   bool
}{
	{redlock.ErrInvalid, "invalid", true},
	{redlock.ErrClosed, "closed", true},
	{redlock.ErrLost, "lost", true},
	{redlock.ErrReleased, "released", true},
	{redlock.ErrNoValidity, "no_validity", true},
	{redlock.ErrNoQuorum, "no_quorum", true},
	{redlock.ErrTaken, "taken", false},
	{context.Canceled, "canceled", false},
	{context.DeadlineExceeded, "canceled", false},
}

// outcomeOf names an outcome, and tells if it is an error of the span.
func outcomeOf(err error) (outcome string, fault bool) {
	if err == nil {
		return "ok", false
	}
	for _, o := range outcomes {
		if errors.Is(err, o.reason) {
			return o.outcome, o.fault
		}
	}
	return "_OTHER", true
}
