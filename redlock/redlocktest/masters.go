package redlocktest

import (
	"fmt"
	"testing"
)

// Masters is [Start] for what is no test, such as an Example or a program that shows something: it
// panics where a test would fail. Call stop at the end. A real program has masters of its own,
// redis://a:6379 and so on.
func Masters(n int) (c *Cluster, stop func()) {
	a := new(alone)
	return Start(a, n), a.end
}

// alone stands in for a test.
type alone struct {
	testing.TB // nil: nothing else of it is called

	cleanups []func()
}

func (*alone) Helper() {}

func (a *alone) Cleanup(f func()) { a.cleanups = append(a.cleanups, f) }

func (*alone) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (*alone) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// end ends the masters, and what else was to be cleaned up, the last first.
func (a *alone) end() {
	for i := len(a.cleanups) - 1; i >= 0; i-- {
		a.cleanups[i]()
	}
}
