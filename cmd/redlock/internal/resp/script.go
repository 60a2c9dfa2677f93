package resp

import (
	"context"
	"crypto/sha1" // the digest by which Redis names scripts
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/redquorum/redquorum/redlock"
)

// Scripts are not known by their text: every library has its own. A script runs in a world that has
// nothing but its keys, in the state that the masters told, and what it did to them there is what
// it wants. That is then done at the masters, to the lease that it saw:
//
//	the key was absent, and is held now        a lease is acquired
//	it was held, and is absent now             that lease is released
//	it was held, and has a new time to live    that lease is extended
//
// If the masters refuse, because the key has another holder by now, the world was another one, and
// the script runs again. So its reply always goes with what was done.
//
// A script that would do the same to a key of any holder does not compare tokens. It is taken for a
// DEL or an EXPIRE, and means the lease of its own connection.

// script is a script that was sent.
type script struct {
	proto *lua.FunctionProto
	idle  sync.Pool // of interpreters that have run it
	// compares is set once it has left alone what had another token. With other arguments, it may
	// not: a client that gives the token of the holder is believed to compare it.
	compares atomic.Bool
}

// Bounds on scripts. Those of lock libraries have less than 4 KiB, and run less than 1,000
// instructions.
const (
	mostScripts      = 512
	mostInstructions = 10_000
	mostRuns         = 4
)

// scripts are those that clients sent, by their digest.
type scripts struct {
	mu    sync.Mutex // guards known
	known map[string]*script
}

func digestOf(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (s *scripts) get(digest string) *script {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[strings.ToLower(digest)]
}

// add compiles a script, and keeps it: any other goes if there are too many. Its client sends that
// again, as it does after a restart of a Redis.
func (s *scripts) add(text string) (_ *script, digest string, _ error) {
	digest = digestOf(text)
	if known := s.get(digest); known != nil {
		return known, digest, nil
	}
	chunk, err := parse.Parse(strings.NewReader(text), "user_script")
	if err != nil {
		return nil, "", fmt.Errorf("ERR Error compiling script: %w", err)
	}
	proto, err := lua.Compile(chunk, "user_script")
	if err == nil {
		err = checkText(proto)
		proto.IsVarArg &^= lua.VarArgNeedsArg // a script has no arguments but KEYS and ARGV
	}
	if err != nil {
		return nil, "", fmt.Errorf("ERR Error compiling script: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.known { // any
		if len(s.known) < mostScripts {
			break
		}
		delete(s.known, other)
	}
	added := &script{proto: proto}
	s.known[digest] = added
	return added, digest, nil
}

func (s *scripts) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
}

// script is SCRIPT LOAD, EXISTS, FLUSH.
func (c *conn) script(args []string) {
	known := &c.server.scripts
	switch sub := strings.ToUpper(args[1]); {
	case sub == "LOAD" && len(args) == 3:
		_, digest, err := known.add(args[2])
		if err != nil {
			c.fail(err.Error())
			return
		}
		c.out.WriteBulk(digest)
	case sub == "EXISTS" && len(args) > 2:
		c.out.WriteLen(len(args) - 2)
		for _, digest := range args[2:] {
			n := 0
			if known.get(digest) != nil {
				n = 1
			}
			c.out.WriteInt(n)
		}
	case sub == "FLUSH":
		known.flush()
		c.out.WriteOK()
	default:
		c.failf("ERR unknown subcommand %.40q of SCRIPT: %s", args[1], whatThisIs)
	}
}

func (c *conn) eval(args []string) {
	s, _, err := c.server.scripts.add(args[1])
	if err != nil {
		c.fail(err.Error())
		return
	}
	c.run(s, args[2:])
}

func (c *conn) evalSHA(args []string) {
	s := c.server.scripts.get(args[1])
	if s == nil {
		c.fail("NOSCRIPT No matching script. Please use EVAL.")
		return
	}
	c.run(s, args[2:])
}

// run runs a script with the number of its keys, its keys and its arguments.
//
// The first run guesses: a key is held by what this server granted last, or by nobody. The masters
// compare that with what they have, as always, so the guess decides nothing, and saves the question
// who holds the key. They compare the keys that change: if one stays as it is, they are asked.
func (c *conn) run(s *script, args []string) {
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 0 || n >= len(args) {
		c.fail("ERR value is not an integer or out of range, or more keys than arguments")
		return
	}
	keys, argv := args[1:1+n], args[1+n:]
	if n == 0 || n > mostWatched {
		c.failf("ERR a script has 1 to %d keys, those of its locks: %s", mostWatched, whatThisIs)
		return
	}
	for attempt := range mostRuns {
		w, err := c.newWorld(keys, attempt == 0)
		if err != nil {
			c.failed(err)
			return
		}
		reply, err := w.run(c.ctx, s, argv)
		if err == nil {
			err = w.settle(c.server.config.DefaultTTL)
		}
		if attempt == 0 && (err != nil || !w.isCompared()) {
			continue
		}
		if err == nil {
			err = c.checkCompares(s, w, argv)
		}
		if err != nil {
			c.fail(err.Error())
			return
		}
		switch err := c.apply(w); {
		case err == nil:
			c.reply(reply, 0)
			return
		case !errors.Is(err, redlock.ErrTaken) && !errors.Is(err, redlock.ErrLost):
			c.failed(err)
			return
		}
	}
	c.fail("TRYAGAIN the lock changed hands each time that the script ran")
}

// newWorld returns the keys as the masters have them, or as they are guessed to be.
func (c *conn) newWorld(keys []string, guess bool) (*world, error) {
	w := &world{states: make([]*state, 0, len(keys)), wall: c.server.config.Clock.Wall(), guessed: guess}
	for _, key := range keys {
		st := &state{key: key}
		if w.of(key) != nil {
			return nil, fmt.Errorf("%w: key %.40q is given twice", redlock.ErrInvalid, key)
		}
		if guess {
			if g, ok := c.server.config.Leases.Remembered(key); ok {
				st.held, st.token, st.ref = true, g.Token, g.Ref()
			}
		} else {
			holder, held, err := c.look(key)
			if err != nil {
				return nil, err
			}
			st.held, st.token, st.left, st.ref = held, holder.Token, holder.Remaining, holder.Ref()
		}
		st.seen, st.seenToken, st.seenLeft = st.held, st.token, st.left
		w.states = append(w.states, st)
	}
	return w, nil
}

// checkCompares returns an error if a script would do to any holder what it did to the one that it
// saw, and that is not the lease of this connection.
func (c *conn) checkCompares(s *script, w *world, argv []string) error {
	for i, st := range w.states {
		if !st.seen || st.does() == nothing || s.compares.Load() && slices.Contains(argv, st.seenToken) {
			continue
		}
		other := &world{wall: w.wall}
		for j, as := range w.states {
			twin := &state{key: as.key, held: as.seen, token: as.seenToken, left: as.seenLeft, seen: as.seen, seenToken: as.seenToken}
			if j == i {
				twin.token = strings.Repeat("\xff", len(as.seenToken)+1) // nobody's
				twin.seenToken = twin.token
			}
			other.states = append(other.states, twin)
		}
		if _, err := other.run(c.ctx, s, argv); err == nil && other.states[i].does() == nothing {
			s.compares.Store(true)
			continue
		}
		if !st.ref.Same(c.ours(st.key)) {
			return errors.New("ERR the script takes a lock whoever holds it: it is to compare the token first, as in " +
				"if redis.call('GET', KEYS[1]) == ARGV[1]")
		}
	}
	return nil
}

// apply does at the masters what a script did in its world. New leases come last, all or none of
// them.
func (c *conn) apply(w *world) (err error) {
	var acquired []string
	var extended []promise
	var one *state
	for _, st := range w.states {
		switch st.does() {
		case nothing, overwrites: // settle refuses these
		case releases:
			err = c.server.config.Leases.ReleaseSeen(c.ctx, st.key, st.ref)
			if err == nil {
				delete(c.mine, st.key)
			}
		case extends:
			extended = append(extended, promise{st.key, st.ref, st.ttl})
		case acquires:
			acquired, one = append(acquired, st.key), st
		}
		if err != nil {
			return err
		}
	}
	if err := c.extend(extended...); err != nil || one == nil {
		return err
	}
	return c.acquire(acquired, one.token, one.ttl)
}

// mostNested bounds lists within lists of a reply.
const mostNested = 8

// reply replies what a script returned, as Redis does.
func (c *conn) reply(v lua.LValue, depth int) {
	switch v := v.(type) {
	case lua.LNumber:
		c.out.WriteInt(int(v))
	case lua.LString:
		c.out.WriteBulk(string(v))
	case *lua.LTable:
		if text, ok := v.RawGetString("err").(lua.LString); ok {
			c.fail(string(text))
		} else if text, ok := v.RawGetString("ok").(lua.LString); ok {
			c.out.WriteInline(string(text))
		} else if depth == mostNested {
			c.out.WriteNull()
		} else {
			n := 0
			for v.RawGetInt(n+1) != lua.LNil {
				n++
			}
			c.out.WriteLen(n)
			for i := range n {
				c.reply(v.RawGetInt(i+1), depth+1)
			}
		}
	default:
		if v == lua.LTrue {
			c.out.WriteInt(1)
			return
		}
		c.out.WriteNull()
	}
}

// checkText refuses scripts that could fill the memory within their instructions: each
// concatenation may double a text. So there are few, and they run once.
func checkText(proto *lua.FunctionProto) error {
	parts, repeats := 0, len(proto.FunctionPrototypes) > 0
	var look func(p *lua.FunctionProto)
	look = func(p *lua.FunctionProto) {
		for _, inst := range p.Code {
			switch int(inst >> 26) { // the opcode
			case lua.OP_CONCAT:
				parts += int(inst>>9&0x1ff) - int(inst&0x1ff) + 1
				if parts < 2 {
					parts += 16
				}
			case lua.OP_FORLOOP, lua.OP_TFORLOOP:
				repeats = true
			case lua.OP_JMP:
				repeats = repeats || int(inst&0x3ffff)-0x1ffff < 0
			}
		}
		for _, inner := range p.FunctionPrototypes {
			look(inner)
		}
	}
	look(proto)
	if parts > mostParts || parts > 0 && repeats {
		return errors.New("it concatenates too much for a lock")
	}
	return nil
}

const mostParts = 16

// budget ends a script after so many instructions. The interpreter asks Done before each.
type budget struct {
	context.Context //nolint:containedctx // it is one

	left int
}

var over = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (b *budget) Done() <-chan struct{} {
	if b.left--; b.left < 0 {
		return over
	}
	return nil
}

func (b *budget) Err() error { return errors.New("it runs for too long for a lock") }
