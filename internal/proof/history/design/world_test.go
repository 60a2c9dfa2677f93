package design

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWhatIsPutOffKeepsItsOrder(t *testing.T) {
	var q queue
	var e event
	q.add(1, &event{item: 1})
	q.add(5, &event{item: 2})
	q.next(&e)
	q.put(5, &e)
	q.next(&e)
	assert.Equal(t, int16(1), e.item)
}

func TestAClockShowsATimeFirstAtItsMoment(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	for range 1000 {
		c := watch{offset: random.Int64N(2000*second) - 1000*second, ppm: random.Int64N(2*6*fastest) - 6*fastest}
		at := c.when(epoch + c.offset + random.Int64N(1000*second))
		shows := c.at(at)
		assert.Less(t, c.at(at-1), shows)
		assert.Equal(t, at, c.when(shows))
	}
}
