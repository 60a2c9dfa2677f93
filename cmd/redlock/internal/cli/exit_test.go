package cli

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redquorum/redquorum/redlock"
)

func TestExitStatusTellsUsageFromFailure(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("any other"), ExitFailed},
		{Usagef("--workers: %d", 0), ExitUsage},
		{fmt.Errorf("demo: %w", Usagef("--nodes")), ExitUsage},
		{fmt.Errorf("run: %w", StatusError{Status: ExitLost}), ExitLost},
	} {
		if got := ExitStatus(c.err); got != c.want {
			t.Errorf("%v: got %d, want %d", c.err, got, c.want)
		}
	}
}

func TestReasonIsTheTextWithoutThatOfTheSentinel(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("%w: its validity has ended", redlock.ErrLost), "its validity has ended"},
		{redlock.ErrLost, "lock lost"},
		{errors.New("another"), "another"},
	} {
		if got := Reason(c.err, redlock.ErrLost); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}
