package resp

import (
	"bufio"
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/redquorum/redquorum/cmd/redlock/internal/lease"
)

// A transaction is one around a lock: WATCH, GET, compare, MULTI, DEL, EXEC. With one Redis nothing
// comes between the WATCH and the DEL. Here the DEL is of the exact lease that the WATCH saw, and
// of no other: so what came in between makes it do nothing, as there. A transaction about several
// keys is not one step.

// watch notes who holds each key.
func (c *conn) watch(args []string) {
	if c.queued != nil {
		c.fail("ERR WATCH inside MULTI is not allowed")
		return
	}
	if len(c.watched)+len(args)-1 > mostWatched {
		c.failf("ERR more than %d keys are watched", mostWatched)
		return
	}
	for _, key := range args[1:] {
		holder, _, err := c.look(key)
		if err != nil {
			c.failed(err)
			return
		}
		if _, again := c.watched[key]; !again {
			c.watched[key] = holder.Ref()
		}
	}
	c.out.WriteOK()
}

func (c *conn) unwatch([]string) {
	if !c.within {
		clear(c.watched)
	}
	c.out.WriteOK()
}

func (c *conn) multi([]string) {
	if c.queued != nil {
		c.fail("ERR MULTI calls can not be nested")
		return
	}
	c.queued = [][]string{}
	c.out.WriteOK()
}

// queue keeps a command for EXEC.
func (c *conn) queue(args []string) {
	size := 0
	for _, arg := range slices.Concat(append(c.queued, args)...) {
		size += len(arg)
	}
	if len(c.queued) == mostQueued || size > mostRequest {
		c.dirty = true
		c.failf("ERR more than %d commands in a transaction, or %d bytes", mostQueued, mostRequest)
		return
	}
	c.queued = append(c.queued, args)
	c.out.WriteInline("QUEUED")
}

func (c *conn) discard([]string) {
	if c.queued == nil {
		c.fail("ERR DISCARD without MULTI")
		return
	}
	c.endTransaction()
	c.out.WriteOK()
}

func (c *conn) endTransaction() {
	c.watched, c.queued, c.promised, c.dirty, c.within = map[string]lease.Ref{}, nil, nil, false, false
}

// exec runs what was queued, unless a watched key has another holder by now.
func (c *conn) exec([]string) {
	defer c.endTransaction()
	switch {
	case c.queued == nil:
		c.fail("ERR EXEC without MULTI")
		return
	case c.dirty:
		c.fail("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	for key, seen := range c.watched {
		holder, _, err := c.look(key)
		if err != nil {
			c.failed(err)
			return
		}
		if !holder.Ref().Same(seen) {
			c.aborted()
			return
		}
	}
	queued, out, replies := c.queued, c.out, new(bytes.Buffer)
	c.queued, c.within = nil, true
	buffered := bufio.NewWriter(replies)
	c.out = server.NewPeer(buffered)
	c.out.Resp3 = out.Resp3
	c.out.WriteLen(len(queued))
	late := 0
	for _, args := range queued {
		late = len(c.promised)
		c.do(args)
	}
	c.out.Flush()
	c.out = out
	if err := c.keep(c.promised[:late]); err != nil {
		c.giveBack()
		c.failed(err)
		return
	}
	c.out.WriteRaw(replies.String())
}

// promise is a lease that a command of a transaction has granted or extended.
type promise struct {
	key string
	ref lease.Ref
	ttl time.Duration
}

// keep has leases last for their TTL from now on. A client reads the replies of a transaction when
// its last command has run, and counts from there (S42). What a later command has released is left
// out.
func (c *conn) keep(promised []promise) error {
	return c.extend(slices.DeleteFunc(promised, func(p promise) bool { return !p.ref.Same(c.mine[p.key]) })...)
}

// extend has leases last for their TTL from now on. It asks for all at once: then all have answered
// within one node timeout, which the masters add to the TTL. One after the other, the first would
// be older by the time of the rest.
func (c *conn) extend(leases ...promise) error {
	errs := make([]error, len(leases))
	var all sync.WaitGroup
	for i, p := range leases {
		all.Go(func() { errs[i] = c.server.config.Leases.ExtendSeen(c.ctx, p.key, p.ref, p.ttl) })
	}
	all.Wait()
	for i, p := range leases {
		if errs[i] != nil {
			return errs[i]
		}
		c.promise(p)
	}
	return nil
}

// promise notes that the client has a lease for a TTL.
func (c *conn) promise(p promise) {
	c.remember(p.key, p.ref)
	if c.within {
		c.promised = append(c.promised, p)
	}
}

// aborted replies that a transaction did nothing. In RESP2 that is a list and not a string that is
// nil.
func (c *conn) aborted() {
	if c.out.Resp3 {
		c.out.WriteNull()
		return
	}
	c.out.WriteRaw("*-1\r\n")
}
