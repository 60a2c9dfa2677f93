package pipeline

// ring is a FIFO queue of calls that reuses its memory. The zero value is empty.
type ring struct {
	calls []*Call // length is a power of two
	head  int
	n     int
}

func (r *ring) len() int { return r.n }

func (r *ring) at(i int) *Call { return r.calls[(r.head+i)&(len(r.calls)-1)] }

func (r *ring) push(c *Call) {
	r.grow()
	r.calls[(r.head+r.n)&(len(r.calls)-1)] = c
	r.n++
}

// unshift puts c in front.
func (r *ring) unshift(c *Call) {
	r.grow()
	r.head = (r.head - 1) & (len(r.calls) - 1)
	r.calls[r.head] = c
	r.n++
}

func (r *ring) pop() *Call {
	c := r.calls[r.head]
	r.calls[r.head] = nil
	r.head = (r.head + 1) & (len(r.calls) - 1)
	r.n--
	return c
}

func (r *ring) popLast() *Call {
	r.n--
	last := (r.head + r.n) & (len(r.calls) - 1)
	c := r.calls[last]
	r.calls[last] = nil
	return c
}

// filter keeps the calls for which keep returns true, in order.
func (r *ring) filter(keep func(*Call) bool) {
	for range r.n {
		if c := r.pop(); keep(c) {
			r.push(c)
		}
	}
}

func (r *ring) grow() {
	if r.n < len(r.calls) {
		return
	}
	bigger := make([]*Call, max(16, 2*len(r.calls)))
	for i := range r.n {
		bigger[i] = r.at(i)
	}
	r.calls, r.head = bigger, 0
}
