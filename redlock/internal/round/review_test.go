package round

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

// The verdict comes while a wait is cut short: the channel goes back without its signal, which
// would end the wait for another round.
func TestNoSignalOfARoundReachesAnother(t *testing.T) {
	for range 200 {
		rounds := &Rounds{}
		r, ended, over := &Round{rounds: rounds}, make(chan struct{}), make(chan struct{})
		go func() {
			defer close(over)
			r.await(ended)
		}()
		waits := func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.wake != nil
		}
		for !waits() {
			runtime.Gosched()
		}
		r.mu.Lock()
		wake := r.wake
		close(ended)
		r.verdict, r.wake = quorum.Won, nil // as decideLocked does
		wake <- struct{}{}
		r.mu.Unlock()
		<-over
		assert.Empty(t, wake)
	}
}
