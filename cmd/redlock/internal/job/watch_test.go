package job

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
)

func TestCommandIsTerminatedInTimeAndKilledBeforeTheEnd(t *testing.T) {
	g := Grace{killAfter: 200 * time.Millisecond, margin: 50 * time.Millisecond}
	for _, c := range []struct {
		left  time.Duration
		want  step
		again time.Duration
	}{
		{time.Second, leave, 750 * time.Millisecond},
		{251 * time.Millisecond, leave, time.Millisecond},
		{250*time.Millisecond + 1, leave, 1},
		{250 * time.Millisecond, terminate, 200 * time.Millisecond},
		{51 * time.Millisecond, terminate, time.Millisecond},
		{50*time.Millisecond + 1, terminate, 1},
		{50 * time.Millisecond, kill, 0},
		{0, kill, 0},
		{-time.Hour, kill, 0}, // stopped or asleep past the end
	} {
		if what, again := g.next(c.left); what != c.want || again != c.again {
			t.Errorf("%v: got %v, again in %v; want %v, %v", c.left, what, again, c.want, c.again)
		}
	}
	g.killAfter = 0
	for left, want := range map[time.Duration]step{51 * time.Millisecond: leave, 50 * time.Millisecond: kill} {
		if what, _ := g.next(left); what != want {
			t.Errorf("without a grace, %v: got %v, want %v", left, what, want)
		}
	}
}

// Checks that come as early as allowed are few until the end, and each of them changes something.
func TestEveryCheckChangesSomething(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ttl := time.Duration(rapid.Int64Range(int64(cli.MinTTL), int64(24*time.Hour)).Draw(t, "ttl"))
		g := NewGrace(ttl, time.Duration(rapid.Int64Range(0, int64(ttl/3)).Draw(t, "killAfter")))
		left := time.Duration(rapid.Int64Range(-int64(ttl), int64(ttl)).Draw(t, "left"))
		var steps []step
		for {
			what, again := g.next(left)
			steps = append(steps, what)
			if what == kill {
				break
			}
			if again <= 0 {
				t.Fatalf("%v left: %v, again in %v", left, what, again)
			}
			left -= again
		}
		if len(steps) > 3 {
			t.Fatalf("%d looks: %v", len(steps), steps)
		}
		if len(steps) > 1 && left != g.margin {
			t.Fatalf("killed %v before the end, want %v", left, g.margin)
		}
	})
}

// Even with the tightest flags, the command gets no signal while renewal works: the first attempt
// comes after a third of the TTL, and a round takes a twentieth at most.
func TestRenewalHasTimeBeforeTheCommandIsTerminated(t *testing.T) {
	for _, ttl := range []time.Duration{cli.MinTTL, 10 * time.Second, cli.DefaultTTL, time.Hour} {
		drift := ttl/100 + 2*time.Millisecond
		retries := 0
		for left := ttl - ttl/3 - drift; ; left -= ttl / 12 {
			if what, _ := NewGrace(ttl, ttl/3).next(left - ttl/20); what != leave {
				break
			}
			retries++
		}
		if retries < 3 {
			t.Errorf("TTL %v: %d attempts to renew before SIGTERM, want 3", ttl, retries)
		}
	}
}
