package design

// A queue has the events that are still to come. Those of one moment come in the order in which
// they were added.
type queue struct {
	heap   []due
	events []event
	free   []int32 // of events
	added  uint64
}

// due is when an event comes. The key has the moment above the number in which it was added.
type due struct {
	key   uint64
	event int32
}

const orderBits = 22

func (q *queue) reset() {
	q.heap, q.events, q.free, q.added = q.heap[:0], q.events[:0], q.free[:0], 0
}

func (q *queue) add(at moment, e *event) {
	e.order = q.added
	q.added++
	q.put(at, e)
}

// put puts an event off, which comes in its old order among those of the moment: what one machine
// has waiting for it, it takes in the order in which that came.
func (q *queue) put(at moment, e *event) {
	var i int32
	if last := len(q.free) - 1; last >= 0 {
		i = q.free[last]
		q.free = q.free[:last]
		q.events[i] = *e
	} else {
		i = int32(len(q.events))
		q.events = append(q.events, *e)
	}
	d := due{uint64(at)<<orderBits | e.order, i}
	q.heap = append(q.heap, d)
	place := len(q.heap) - 1
	for place > 0 {
		parent := (place - 1) / 4
		if q.heap[parent].key <= d.key {
			break
		}
		q.heap[place] = q.heap[parent]
		place = parent
	}
	q.heap[place] = d
}

// next takes the first event out. It reports false if there is none.
func (q *queue) next(e *event) (at moment, found bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	first := q.heap[0]
	last := len(q.heap) - 1
	d := q.heap[last]
	q.heap = q.heap[:last]
	if last > 0 {
		q.sink(d)
	}
	*e = q.events[first.event]
	q.free = append(q.free, first.event)
	return moment(first.key >> orderBits), true
}

// sink puts d in at the root.
func (q *queue) sink(d due) {
	i := 0
	for {
		child := 4*i + 1
		if child >= len(q.heap) {
			break
		}
		for other := child + 1; other < min(4*i+5, len(q.heap)); other++ {
			if q.heap[other].key < q.heap[child].key {
				child = other
			}
		}
		if d.key <= q.heap[child].key {
			break
		}
		q.heap[i] = q.heap[child]
		i = child
	}
	q.heap[i] = d
}
