package redlock

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestStateMovesAlongItsEdgesOnly(t *testing.T) {
	states := []state{held, released, lost}
	allowed := map[[2]state]bool{{held, released}: true, {held, lost}: true}
	for _, from := range states {
		for _, to := range states {
			t.Run(fmt.Sprintf("%v to %v", from, to), func(t *testing.T) {
				s := from
				if allowed[[2]state{from, to}] {
					s.move(to)
					assert.Equal(t, to, s)
					return
				}
				assert.Panics(t, func() { s.move(to) })
				assert.Equal(t, from, s)
			})
		}
	}
}
