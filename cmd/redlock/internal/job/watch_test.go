package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

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
		what, again := g.next(c.left)
		assert.Equal(t, c.want, what, c.left)
		assert.Equal(t, c.again, again, c.left)
	}
	g.killAfter = 0
	for left, want := range map[time.Duration]step{51 * time.Millisecond: leave, 50 * time.Millisecond: kill} {
		what, _ := g.next(left)
		assert.Equal(t, want, what, "without a grace, %v", left)
	}
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
		assert.GreaterOrEqual(t, retries, 3, "attempts to renew before SIGTERM with a TTL of %v", ttl)
	}
}
