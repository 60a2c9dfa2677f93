package handoff

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/clock/clocktest"
)

// release is one whose pilot's vote is in or not.
type release struct{ voted bool }

func (r *release) AwaitVote(int) bool { return !r.voted }

func TestAPendingReleaseIsAwaited(t *testing.T) {
	const limit, early = time.Second, 300 * time.Millisecond
	for name, test := range map[string]struct {
		during func(p *Pending, r *release, cancel, closing func())
		want   time.Duration
	}{
		"until its limit":            {func(*Pending, *release, func(), func()) {}, limit},
		"until the pilot answers":    {func(p *Pending, r *release, _, _ func()) { p.Answered("a", r) }, early},
		"not by another's answer":    {func(p *Pending, _ *release, _, _ func()) { p.Answered("a", &release{}) }, limit},
		"not by another key's":       {func(p *Pending, r *release, _, _ func()) { p.Answered("b", r) }, limit},
		"until ctx ends":             {func(_ *Pending, _ *release, cancel, _ func()) { cancel() }, early},
		"until the Locker is closed": {func(_ *Pending, _ *release, _, closing func()) { closing() }, early},
		"beside a later one of the key": {func(p *Pending, r *release, _, _ func()) {
			p.Add("a", &release{}, 0, 0)
			p.Answered("a", r)
		}, limit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clk, began := clocktest.New(), time.Now()
				var p Pending
				r := &release{}
				p.Add("a", r, 0, clk.Now().Add(limit))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				closing := make(chan struct{})
				time.AfterFunc(early, func() { test.during(&p, r, cancel, func() { close(closing) }) })
				p.Await(ctx, closing, clk, "a")
				assert.Equal(t, test.want, time.Since(began))
				time.Sleep(limit) // the timer of this test runs in its bubble
			})
		})
	}
}

func TestWhatIsNotPendingIsNotAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk, began := clocktest.New(), time.Now()
		var p Pending
		p.Await(t.Context(), nil, clk, "a")
		p.Add("a", &release{voted: true}, 0, clk.Now().Add(time.Second))
		p.Await(t.Context(), nil, clk, "a")
		r := &release{}
		p.Add("a", r, 0, clk.Now().Add(time.Second))
		p.Await(t.Context(), nil, clk, "b")
		assert.Zero(t, time.Since(began))
		time.Sleep(time.Second)
		p.Await(t.Context(), nil, clk, "a")
		assert.Equal(t, time.Second, time.Since(began), "past its limit")
		p.Answered("a", r)
		p.Answered("a", r)
		assert.Empty(t, p.byKey)
	})
}
