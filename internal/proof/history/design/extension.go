package design

// extend begins an extension. A shorter TTL shortens the validity before a byte is sent.
func (w *world) extend(c *client) {
	local := c.at(w.now)
	if local >= c.until {
		w.lose(c)
		return
	}
	if c.ttl = c.use.ttl; c.extended%2 == 0 {
		c.ttl = c.use.other
	}
	c.extended++
	c.extending = true
	c.start = local
	if until := w.validity(c); until < c.until && !w.rules.LateShortening {
		c.until, c.believes = until, c.when(until)
		w.after(c, until, expires)
	}
	w.ask(c, message{op: extend, slot: c.slot})
}

// extendedBy takes the verdict on an extension.
func (w *world) extendedBy(c *client, verdict ballot) {
	local := c.at(w.now)
	c.extending = false
	switch {
	case local >= c.until && !w.rules.LateVerdict: // the expiry comes at this moment
	case verdict == granted:
		w.count(extensions)
		if w.now >= c.believes {
			w.sayClient(c, "goes on")
			w.violate(Final, c)
		}
		if until := w.validity(c); until > c.until || w.rules.LateShortening {
			c.until = until
		}
		c.believes = c.when(c.until)
		w.sayClient(c, "extends")
		w.believe(c)
		w.after(c, c.start+c.ttl*millisecond/3, renews)
	case verdict == refused:
		w.count(denied)
		w.sayClient(c, "is told that the lock is gone")
		w.over(c)
	default:
		w.after(c, local+max(c.ttl*millisecond/12, 5*millisecond), renews)
	}
}

// lose is the end of the validity. What is left is released once all nodes have forgotten it.
func (w *world) lose(c *client) {
	w.count(lost)
	w.sayClient(c, "finds its validity ended")
	c.phase = expired
	w.after(c, c.until+driftOf(c.ttl), undoes)
}
