package resp

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/lease"
	"github.com/redquorum/redquorum/redlock"
)

// failed replies an error of the leases: it is never taken for "taken" or "lost", and says what to
// do where something can be done.
func (c *conn) failed(err error) {
	code := "ERR "
	if errors.Is(err, redlock.ErrNoQuorum) || errors.Is(err, redlock.ErrNoValidity) {
		code = "NOQUORUM "
	}
	c.failf("%s%v", code, err)
}

// acquire makes one attempt for all keys under one token. Clients wait by asking again.
func (c *conn) acquire(keys []string, token string, ttl time.Duration) error {
	g, err := c.server.config.Leases.Acquire(c.ctx, lease.Request{
		Names: keys, Token: token, TTL: ttl, Owner: c.name, Door: "redis", From: c.from, Silent: true,
	})
	if err != nil {
		return err
	}
	c.unsent = append(c.unsent, g)
	for _, key := range keys {
		c.promise(promise{key, g.Ref(), ttl})
		if c.within { // what comes behind it in the transaction means this one
			delete(c.watched, key)
		}
	}
	return nil
}

// look tells who holds a key.
func (c *conn) look(key string) (lease.Holder, bool, error) {
	return c.server.config.Leases.Look(c.ctx, key)
}

// ours returns what a plain DEL or EXPIRE of a key means: what was watched, or else what this
// connection has, or has read last.
func (c *conn) ours(key string) lease.Ref {
	if ref, watched := c.watched[key]; watched && c.within {
		return ref
	}
	return c.mine[key]
}

// change replies 1 for a change that was made to a lease, and 0 if the lease is not there.
func (c *conn) change(err error) {
	switch {
	case err == nil:
		c.out.WriteInt(1)
	case errors.Is(err, redlock.ErrLost):
		c.out.WriteInt(0)
	default:
		c.failed(err)
	}
}

// options are those of SET.
type options struct {
	nx, xx, get bool
	equal       *string // IFEQ
	ttl         time.Duration
}

// readOptions reads the options of SET, or returns what is wrong with them.
func (c *conn) readOptions(args []string) (o options, wrong string) {
	for len(args) > 0 {
		word := strings.ToUpper(args[0])
		args = args[1:]
		switch word {
		case "NX":
			o.nx = true
			continue
		case "XX":
			o.xx = true
			continue
		case "GET":
			o.get = true
			continue
		case "EX", "PX", "EXAT", "PXAT", "IFEQ":
		default:
			return o, "ERR syntax error: no option " + strconv.QuoteToASCII(word) + " of SET"
		}
		if len(args) == 0 {
			return o, "ERR syntax error"
		}
		value := args[0]
		args = args[1:]
		if word == "IFEQ" {
			o.equal = &value
			continue
		}
		if o.ttl != 0 {
			return o, "ERR syntax error"
		}
		if o.ttl, wrong = c.span(word, value, "set"); wrong != "" {
			return o, wrong
		}
		if o.ttl <= 0 {
			return o, "ERR invalid expire time in 'set' command"
		}
	}
	if o.nx && (o.xx || o.equal != nil) {
		return o, "ERR syntax error"
	}
	return o, ""
}

// span reads a time to live by what it is given with: EX, PX, EXPIRE and so on. It is 0 or less for
// a time that has passed.
func (c *conn) span(how, text, command string) (d time.Duration, wrong string) {
	unit := time.Second
	if how[0] == 'P' {
		unit = time.Millisecond
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, "ERR value is not an integer or out of range"
	}
	if n > math.MaxInt64/int64(unit) || n < math.MinInt64/int64(unit) {
		return 0, "ERR invalid expire time in '" + command + "' command"
	}
	d = time.Duration(n) * unit
	if strings.HasSuffix(how, "AT") {
		d = time.UnixMilli(0).Add(d).Sub(c.server.config.Clock.Wall())
	}
	return d, ""
}

const needsEnd = "a lock needs an end: SET key token NX PX milliseconds, or redlock serve --default-ttl for locks without one"

// ttlFor returns a TTL, or the one of locks without, or what is wrong with that.
func (c *conn) ttlFor(ttl time.Duration) (time.Duration, string) {
	if ttl == 0 {
		ttl = c.server.config.DefaultTTL
	}
	if ttl == 0 {
		return 0, "ERR " + needsEnd
	}
	return ttl, ""
}

// set is SET key token, with NX a lock, and without NX an extension of one's own.
func (c *conn) set(args []string) {
	key, token := args[1], args[2]
	o, wrong := c.readOptions(args[3:])
	if wrong != "" {
		c.fail(wrong)
		return
	}
	ttl, wrong := c.ttlFor(o.ttl)
	if wrong != "" {
		c.fail(wrong)
		return
	}
	if !o.nx {
		c.setOurs(key, token, o, ttl)
		return
	}
	err := c.acquire([]string{key}, token, ttl)
	switch {
	case err == nil && o.get:
		c.out.WriteNull()
	case err == nil:
		c.out.WriteOK()
	case !errors.Is(err, redlock.ErrTaken):
		c.failed(err)
	case o.get:
		c.get(args)
	default:
		c.out.WriteNull()
	}
}

// setOurs is SET with XX, IFEQ or nothing: for the holder, an extension. It overwrites nobody: SET
// of a key that another client holds is what makes locks on Redis unsafe.
func (c *conn) setOurs(key, token string, o options, ttl time.Duration) {
	holder, held, err := c.look(key)
	if err != nil {
		c.failed(err)
		return
	}
	own := held && (holder.Ref().Same(c.ours(key)) || holder.Token == token) && holder.Lease
	if o.equal != nil {
		own = held && holder.Token == *o.equal && holder.Lease
	}
	if own && holder.Token != token {
		c.fail("ERR a lock that is held keeps its token: it is released first, and then acquired")
		return
	}
	if own {
		err = c.extend(promise{key, holder.Ref(), ttl})
		own = !errors.Is(err, redlock.ErrLost)
	}
	switch {
	case own && err != nil:
		c.failed(err)
	case own && o.get:
		c.out.WriteBulk(holder.Token)
	case own:
		c.out.WriteOK()
	case o.xx, o.equal != nil:
		c.out.WriteNull()
	default:
		c.fail("ERR SET without NX takes a lock whoever holds it: SET key token NX PX milliseconds")
	}
}

func (c *conn) setNX(args []string) {
	ttl, wrong := c.ttlFor(0)
	if wrong != "" {
		c.fail(wrong)
		return
	}
	err := c.acquire(args[1:2], args[2], ttl)
	if errors.Is(err, redlock.ErrTaken) {
		c.out.WriteInt(0)
		return
	}
	c.change(err)
}

// setEX is SETEX and PSETEX.
func (c *conn) setEX(args []string) {
	unit := map[string]string{"SETEX": "EX", "PSETEX": "PX"}[args[0]]
	c.set([]string{"SET", args[1], args[3], unit, args[2]})
}

func (c *conn) get(args []string) { c.getAll(args[1:2], false) }

func (c *conn) mget(args []string) { c.getAll(args[1:], true) }

// getAll replies the tokens of keys. What was read may be deleted from then on.
func (c *conn) getAll(keys []string, list bool) {
	tokens := make([]*string, len(keys))
	for i, key := range keys {
		holder, held, err := c.look(key)
		if err != nil {
			c.failed(err)
			return
		}
		c.remember(key, holder.Ref())
		if held {
			tokens[i] = &holder.Token
		}
	}
	if list {
		c.out.WriteLen(len(keys))
	}
	for _, token := range tokens {
		if token == nil {
			c.out.WriteNull()
		} else {
			c.out.WriteBulk(*token)
		}
	}
}

func (c *conn) exists(args []string) {
	n := 0
	for _, key := range args[1:] {
		_, held, err := c.look(key)
		if err != nil {
			c.failed(err)
			return
		}
		if held {
			n++
		}
	}
	c.out.WriteInt(n)
}

func (c *conn) kind(args []string) {
	switch _, held, err := c.look(args[1]); {
	case err != nil:
		c.failed(err)
	case held:
		c.out.WriteInline("string")
	default:
		c.out.WriteInline("none")
	}
}

// ttl is TTL and PTTL. As with Redis, seconds are rounded.
func (c *conn) ttl(args []string) {
	switch holder, held, err := c.look(args[1]); {
	case err != nil:
		c.failed(err)
	case !held:
		c.out.WriteInt(-2)
	case args[0] == "PTTL":
		c.out.WriteInt(int(holder.Remaining.Milliseconds()))
	default:
		c.out.WriteInt(int(holder.Remaining.Round(time.Second).Seconds()))
	}
}

// expire is EXPIRE and the like, of one's own.
func (c *conn) expire(args []string) {
	how := map[string]string{"EXPIRE": "EX", "PEXPIRE": "PX", "EXPIREAT": "EXAT", "PEXPIREAT": "PXAT"}[args[0]]
	d, wrong := c.span(how, args[2], strings.ToLower(args[0]))
	if wrong == "" && len(args) == 4 && !strings.EqualFold(args[3], "XX") && !strings.EqualFold(args[3], "GT") {
		wrong = "ERR a lock is only extended: no option " + strconv.QuoteToASCII(args[3])
	}
	switch {
	case wrong != "":
		c.fail(wrong)
	case d <= 0:
		c.change(c.delete(args[1]))
	default:
		c.change(c.extend(promise{args[1], c.ours(args[1]), d}))
	}
}

// delete releases a key if it is ours, or takes it from whoever holds it, if that is permitted.
func (c *conn) delete(key string) error {
	err := c.server.config.Leases.ReleaseSeen(c.ctx, key, c.ours(key))
	if err == nil || errors.Is(err, redlock.ErrLost) { // otherwise it can be tried again
		delete(c.mine, key)
	}
	if force := c.server.config.Force; force != nil && errors.Is(err, redlock.ErrLost) && !c.within {
		err = c.force(key, err)
	}
	return err
}

func (c *conn) force(key string, lost error) error {
	status, err := c.server.config.Force.Inspect(c.ctx, key)
	if err != nil || status.Value == "" {
		return errors.Join(err, lost)
	}
	why := "DEL by " + c.from
	if c.name != "" {
		why += " (" + c.name + ")"
	}
	return c.server.config.Force.Because(why).ForceUnlock(c.ctx, key, status.Value)
}

// del is DEL and UNLINK. As with Redis, it replies how many keys there were.
func (c *conn) del(args []string) {
	n := 0
	for _, key := range args[1:] {
		switch err := c.delete(key); {
		case err == nil:
			n++
		case !errors.Is(err, redlock.ErrLost):
			c.failed(err)
			return
		}
	}
	c.out.WriteInt(n)
}

// delIf is DELEX key [IFEQ token] and DELIFEQ key token.
func (c *conn) delIf(args []string) {
	switch {
	case args[0] == "DELEX" && len(args) == 2:
		c.change(c.delete(args[1]))
	case args[0] == "DELEX" && (len(args) != 4 || !strings.EqualFold(args[2], "IFEQ")):
		c.fail("ERR syntax error: DELEX key IFEQ token")
	default:
		c.change(c.server.config.Leases.Release(c.ctx, args[1], args[len(args)-1]))
	}
}
