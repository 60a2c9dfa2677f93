package design

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEventsComeInOrder(t *testing.T) {
	type coming struct {
		at    moment
		order int16
	}
	random := rand.New(rand.NewPCG(1, 1))
	var q queue
	var want, got []coming
	for i := range int16(1000) {
		at := random.Int64N(100)
		want = append(want, coming{at, i})
		q.add(at, &event{item: i})
	}
	slices.SortFunc(want, func(a, b coming) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) })
	var e event
	for at, found := q.next(&e); found; at, found = q.next(&e) {
		got = append(got, coming{at, e.item})
	}
	assert.Equal(t, want, got)
}

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
