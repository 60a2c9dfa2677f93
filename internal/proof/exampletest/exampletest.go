// Package exampletest starts masters for Examples, so that they run anywhere.
package exampletest

import (
	"fmt"
	"testing"

	"github.com/redquorum/redquorum/redlock/redlocktest"
)

// Masters starts n embedded masters, and returns a function that ends them. A user of the library
// has real ones, redis://a:6379 and so on.
func Masters(n int) (masters *redlocktest.Cluster, stop func()) {
	tb := new(TB)
	return redlocktest.Start(tb, n), tb.End
}

// TB stands in for the test of an Example, which has none. A failure is a panic.
type TB struct {
	testing.TB

	cleanups []func()
}

// Helper does nothing.
func (*TB) Helper() {}

// Cleanup has f called by End.
func (tb *TB) Cleanup(f func()) { tb.cleanups = append(tb.cleanups, f) }

// Fatalf panics.
func (*TB) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// Errorf panics.
func (*TB) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// End ends what belongs to the Example, the last first.
func (tb *TB) End() {
	for i := len(tb.cleanups) - 1; i >= 0; i-- {
		tb.cleanups[i]()
	}
}
