package pipeline

// ring is a FIFO queue of calls that reuses its memory. The zero value is empty.
type ring struct {
	calls []Call // length is a power of two
	head  int
	n     int
}

func (r *ring) len() int { return r.n }

// at returns a call, where it is until the ring changes.
func (r *ring) at(i int) *Call { return &r.calls[(r.head+i)&(len(r.calls)-1)] }

func (r *ring) push(c Call) {
	r.grow()
	r.n++
	*r.at(r.n - 1) = c
}

// unshift puts c in front.
func (r *ring) unshift(c Call) {
	r.grow()
	r.head = (r.head - 1) & (len(r.calls) - 1)
	r.n++
	*r.at(0) = c
}

func (r *ring) pop() Call {
	c := *r.at(0)
	*r.at(0) = Call{}
	r.head = (r.head + 1) & (len(r.calls) - 1)
	r.n--
	return c
}

func (r *ring) popLast() Call {
	c := *r.at(r.n - 1)
	*r.at(r.n - 1) = Call{}
	r.n--
	return c
}

// filter keeps the calls for which keep returns true, in order.
func (r *ring) filter(keep func(*Call) bool) {
	for range r.n {
		kept := keep(r.at(0))
		if c := r.pop(); kept {
			r.push(c)
		}
	}
}

func (r *ring) grow() {
	if r.n < len(r.calls) {
		return
	}
	bigger := make([]Call, max(16, 2*len(r.calls)))
	for i := range r.n {
		bigger[i] = *r.at(i)
	}
	r.calls, r.head = bigger, 0
}
