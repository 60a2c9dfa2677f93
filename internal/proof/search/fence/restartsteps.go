package fence

type eraVisitor func(next *era, e event)

func (r *restarter) Each(w *era, visit func(next *era, e event)) {
	r.tick(w, visit)
	idleSeen := false
	for c := range w.tries {
		if w.tries[c].phase != idle {
			r.attempt(w, c, visit)
		} else if !idleSeen {
			idleSeen = true
			r.begin(w, c, visit)
		}
	}
	for n := range w.nodes {
		if !r.Bare {
			r.late(w, n, visit)
		}
		r.forget(w, n, visit)
	}
	if r.Faulty != nil {
		r.spoil(w, visit)
	}
}

// tick is one step of time. Attempts whose validity ends with it are over.
func (r *restarter) tick(w *era, visit eraVisitor) {
	if int(w.now) == r.Horizon {
		return
	}
	next := *w
	next.now++
	for n := range next.nodes {
		at := &next.nodes[n]
		at.busy = false
		at.wait = max(at.wait-1, 0)
	}
	for c, one := range w.tries {
		if one.phase != idle && one.phase != mending && int(next.now-one.began) > r.TTL {
			next.end(c)
		}
	}
	visit(&next, event{kind: Ticked, client: ghostClient, node: nowhere, number: int64(next.now)})
}

func (r *restarter) begin(w *era, c int, visit eraVisitor) {
	if r.Attempts > 0 && int(w.begun) == r.Attempts {
		return
	}
	for skew := -r.Skew; skew <= r.Skew; skew++ {
		ts := int(w.now) + skew
		if ts < 0 || r.Bare && skew != -r.Skew && skew != r.Skew {
			continue
		}
		next := *w
		if r.Attempts > 0 {
			next.begun++
		}
		next.tries[c] = try{phase: asking, ts: int8(ts), began: w.now, floor: largest16(w.tokens)}
		visit(&next, event{kind: Begun, client: int8(c), node: nowhere, number: int64(ts)})
	}
}

func (r *restarter) attempt(w *era, c int, visit eraVisitor) {
	one := &w.tries[c]
	if one.phase == mending {
		r.mend(w, c, visit)
		return
	}
	for n := range w.nodes {
		at := &w.nodes[n]
		if at.busy && (r.Faulty == nil || n > 0) {
			continue
		}
		r.ask(w, c, n, one.ts, visit)
		if r.Faulty != nil && n == 0 && one.ts > at.fence+1 {
			r.ask(w, c, n, 0, visit) // its clock is far behind
		}
		if vote := one.votes[n].fence; one.phase == raising && vote > 0 && vote < one.target {
			if !r.follows(w, n, one.target) {
				visit(w, event{kind: NotFollowed, client: int8(c), node: int8(n), number: int64(one.target)})
				continue
			}
			r.load(at)
			if r.Faulty != nil {
				r.scratch.Value = valueOf(c)
			}
			if r.one.Raise(valueOf(c), int64(one.target)) {
				next := *w
				r.wrote(&next, c, n, int64(one.target))
				if r.Faulty != nil {
					next.nodes[n].key = at.key
				}
				visit(&next, event{kind: Raised, client: int8(c), node: int8(n), number: int64(one.target)})
			}
		}
	}
	if r.Faulty != nil {
		r.raiseInVain(w, c, visit)
	}
	if r.Faulty != nil && r.Faulty.MendUnconfirmed {
		r.mendUnconfirmed(w, c, visit)
	}
	r.conclude(w, c, visit)
	next := *w
	next.end(c)
	visit(&next, event{kind: GaveUp, client: int8(c), node: nowhere})
}

// ask is a SET, with the timestamp that the node reads from it.
func (r *restarter) ask(w *era, c, n int, ts int8, visit eraVisitor) {
	r.load(&w.nodes[n])
	if r.Faulty != nil {
		r.scratch.Value = nobody
	}
	if fence, ok := r.one.Acquire(valueOf(c), int64(ts)); ok && r.has(fence) {
		next := *w
		r.wrote(&next, c, n, fence)
		if r.Faulty != nil && n > 0 {
			next.nodes[n].key = nobody
		}
		kind := Acquired
		if next.tries[c].votes[n].young {
			kind = AcquiredOut
		}
		visit(&next, event{kind: kind, client: int8(c), node: int8(n), number: fence})
	}
}

func (r *restarter) load(at *site) {
	r.scratch = Entry[Value]{Value: at.key, Fence: int64(at.fence)}
}

// store puts the scratch entry back after its fence was written.
func (r *restarter) store(at *site) {
	at.key, at.fence, at.busy = r.scratch.Value, int8(r.scratch.Fence), true
	if r.Unused {
		at.wait = int8(r.Out)
	}
}

// wrote ends a script of a client. The vote is young if the node is out.
func (r *restarter) wrote(next *era, c, n int, fence int64) {
	at := &next.nodes[n]
	next.tries[c].votes[n] = ballot{int8(fence), !r.Unused && at.wait > 0}
	r.store(at)
}

// conclude is every decision, depending on which votes have arrived. A vote counts if the node gave
// it before it lost its counters, whether or not the client knows of that loss, or if the node
// is no longer out.
func (r *restarter) conclude(w *era, c int, visit eraVisitor) {
	one := &w.tries[c]
	var tokens, targets uint16
	for choice := range 1 << restartNodes {
		var votes [restartNodes]Vote
		for n, vote := range one.votes {
			if choice>>n&1 == 1 && vote.fence > 0 && (!vote.young || w.nodes[n].wait == 0) {
				votes[n] = Vote{Granted, int64(vote.fence)}
			}
		}
		var d Decision
		if one.phase == asking {
			d = First(votes[:])
		} else {
			d = Second(votes[:], int64(one.target))
		}
		switch d.Verdict {
		case Won:
			tokens |= 1 << (d.Token - 1)
		case Uneven:
			for _, v := range votes { // the caller may raise to anything that was granted
				if v.Answer == Granted {
					targets |= 1 << (v.Fence - 1)
				}
			}
		case Pending, Lost:
		}
	}
	for t := range int8(maxHorizon) {
		if tokens>>t&1 == 1 {
			r.won(w, c, t+1, visit)
		}
		if targets>>t&1 == 1 {
			next := *w
			next.tries[c].phase, next.tries[c].target = raising, t+1
			visit(&next, event{kind: SecondBegun, client: int8(c), node: nowhere, number: int64(t + 1)})
		}
	}
}

func (r *restarter) won(w *era, c int, token int8, visit eraVisitor) {
	e := event{kind: WonFirst, client: int8(c), node: nowhere, number: int64(token)}
	if w.tries[c].phase == raising {
		e.kind = WonSecond
	}
	switch {
	case w.tokens>>(token-1)&1 == 1:
		e.broken = unique
	case token <= w.tries[c].floor:
		e.broken = ordered
	}
	next := *w
	next.tokens |= 1 << (token - 1)
	if r.mends(w, c, token) {
		mend := next
		mend.tries[c].phase, mend.tries[c].target = mending, token
		visit(&mend, e)
	}
	next.end(c)
	visit(&next, e)
}

// late is a SET of an attempt that is over, with a timestamp that is old, or as far ahead as a
// clock can be by now.
func (r *restarter) late(w *era, n int, visit eraVisitor) {
	at := &w.nodes[n]
	if at.busy {
		return
	}
	for _, ts := range [...]int8{0, w.now + int8(r.Skew)} {
		if ts > 0 && ts <= at.fence+1 {
			continue // as with 0
		}
		r.load(at)
		if fence, ok := r.one.Acquire(ghost, int64(ts)); ok && r.has(fence) {
			next := *w
			r.store(&next.nodes[n])
			visit(&next, event{kind: AcquiredLate, client: ghostClient, node: int8(n), number: fence})
		}
	}
}

func (r *restarter) forget(w *era, n int, visit eraVisitor) {
	at := &w.nodes[n]
	if r.Faulty != nil {
		return // the owner of a key matters only to a mend, which may as well be lost
	}
	if at.key != nobody {
		next := *w
		next.nodes[n].key = nobody
		kind := ExpiredPresent
		if at.key == ghost {
			kind = ExpiredOver
		}
		visit(&next, event{kind: kind, client: ghostClient, node: int8(n)})
	}
	if w.losses == 0 || at.fence == 0 || r.Unused && at.wait > 0 {
		return
	}
	next := *w
	next.losses--
	lost := &next.nodes[n]
	lost.fence = 0
	if !r.Unused { // a counter that expires takes nothing with it
		lost.key, lost.wait = nobody, int8(r.Out)
	}
	visit(&next, event{kind: CounterLost, client: ghostClient, node: int8(n)})
}
