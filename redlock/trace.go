package redlock

import "context"

// Tracer is told of the calls of a Locker and its locks, such as for spans of OpenTelemetry. Its
// methods are called from any goroutine, by the calls themselves: what a tracer takes, its caller
// waits for. See [WithTracer].
type Tracer interface {
	// Start is called when an operation begins. The operation goes on with the context that it
	// returns, and calls the function with its error (nil if it succeeded) when it ends.
	Start(ctx context.Context, op Operation) (context.Context, func(error))
}

// Operation is what a [Tracer] is told of.
type Operation struct {
	Kind OperationKind
	Name string // of the lock or semaphore; of several names the first
}

// OperationKind is the kind of an [Operation].
type OperationKind string

// The kinds of operations.
const (
	OperationAcquire OperationKind = "acquire" // TryLock, Lock, Adopt and the like
	OperationWait    OperationKind = "wait"    // within an acquisition that did not succeed at once
	OperationExtend  OperationKind = "extend"  // Extend by its caller, not renewals
	OperationRelease OperationKind = "release" // Unlock
)

// WithTracer sets a [Tracer]. Without one, tracing costs nothing.
func WithTracer(tracer Tracer) Option {
	return lockerOption(func(c *config) error {
		if tracer == nil {
			return invalid("tracer is nil")
		}
		c.tracer = tracer
		return nil
	})
}

// span ends an operation; nil if it is not traced.
type span func(error)

func (s span) end(err error) {
	if s != nil {
		s(err)
	}
}

func (l *Locker) trace(ctx context.Context, kind OperationKind, name string) (context.Context, span) {
	if l.config.tracer == nil || ctx == nil {
		return ctx, nil
	}
	return l.config.tracer.Start(ctx, Operation{kind, name})
}

// firstOf returns the first name, for a tracer.
func firstOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}
