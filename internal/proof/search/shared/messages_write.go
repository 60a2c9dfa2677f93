package shared

// askToWrite is a request to write.
func (x *explorer) askToWrite(w *world, c, n int, visit visitor) {
	one, at, v := &w.clients[c], &w.nodes[n], valueOf(c)
	kind := Granted
	switch {
	case one.phase == over:
		kind = GrantedLate
	case at.key == v && !one.links[n].vote:
		kind = Confirmed
	case one.links[n].vote || one.links[n].answers != 0:
		kind = GrantedAgain
	}
	x.times(func(ttl int64) {
		if one.mode == foreign {
			if x.load(w, n).AcquireForeign(v, ttl) {
				x.granted(w, c, n, kind, ttl, 0, visit)
			}
			return
		}
		x.timestamps(at.fence+1, func(ts int64) {
			ask := (*Entry[Value]).AcquireWrite
			if one.waits {
				ask = (*Entry[Value]).AnnounceWrite
			}
			if fence, granted := ask(x.load(w, n), v, ttl, ts); granted {
				x.granted(w, c, n, kind, ttl, fence, visit)
			}
		})
	})
	if one.waits && at.key != nobody && at.key != v && one.phase != held {
		next := *w
		ask, kind := (*Entry[Value]).AnnounceWrite, Announced
		if n < x.Pilots {
			ask, kind = (*Entry[Value]).WaitWrite, Joined
		}
		ask(x.load(w, n), v, 0, 0)
		x.store(&next, n)
		if next != *w {
			visit(&next, event{kind: kind, client: int8(c), node: int8(n)})
		}
	}
}

// intend is an announcement alone. It comes before, between and after all that the writer sends, as
// often as it likes.
func (x *explorer) intend(w *world, c, n int, visit visitor) {
	one := &w.clients[c]
	if !one.waits || one.mode != writer {
		return
	}
	next := *w
	x.load(w, n).Intend(valueOf(c))
	x.store(&next, n)
	kind := Intended
	if one.phase == over {
		kind = IntendedLate
	} else if x.CountIntent {
		next.clients[c].links[n].vote = true
	}
	if next != *w {
		visit(&next, event{kind: kind, client: int8(c), node: int8(n)})
	}
}

func (x *explorer) raiseWrite(w *world, c, n int, visit visitor) {
	one := &w.clients[c]
	if one.phase != raising || one.links[n].answers&isBelow == 0 {
		return
	}
	e := event{kind: WriteRaised, client: int8(c), node: int8(n), number: one.target}
	next := *w
	if x.load(w, n).RaiseWrite(valueOf(c), int64(one.target)) {
		next.clients[c].note(n, one.target)
	} else {
		e.kind = WriteNotRaised
	}
	x.store(&next, n)
	visit(&next, e)
}
