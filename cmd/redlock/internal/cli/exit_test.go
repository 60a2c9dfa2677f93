package cli

import (
	"errors"
	"fmt"
	"testing"
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
