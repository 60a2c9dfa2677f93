package resp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"

	"github.com/redquorum/redquorum/cmd/redlock/internal/lease"
)

// world is what a script sees: its keys, and what it did to them so far.
type world struct {
	states  []*state
	wall    time.Time
	guessed bool // nobody has asked the masters who holds the keys

	unguessed bool // and the script wants to know what cannot be guessed, and may catch that error
}

// state is one key.
type state struct {
	key string

	// As it was before the script ran.
	seen      bool
	seenToken string
	seenLeft  time.Duration
	ref       lease.Ref

	// As it is now, in the world.
	held  bool
	token string
	left  time.Duration
	spans bool          // it was given a time to live, or none with a token
	ttl   time.Duration // that one; 0 for none
}

// effect is what a script did to a key.
type effect uint8

const (
	nothing effect = iota
	acquires
	releases
	extends
	overwrites
)

// does returns what the script did, by how the key was before and is now.
func (s *state) does() effect {
	switch {
	case !s.seen && s.held:
		return acquires
	case s.seen && !s.held:
		return releases
	case s.seen && s.token != s.seenToken:
		return overwrites
	case s.seen && s.spans:
		return extends
	}
	return nothing
}

func (s *state) delete() { s.held, s.token, s.spans, s.ttl = false, "", false, 0 }

func (s *state) write(token string, ttl time.Duration) {
	s.held, s.token, s.spans, s.ttl, s.left = true, token, true, ttl, ttl
}

func (s *state) expire(ttl time.Duration) { s.spans, s.ttl, s.left = true, ttl, ttl }

// isCompared reports whether the masters will compare all that a guess has told the script.
func (w *world) isCompared() bool {
	return !w.unguessed && !slices.ContainsFunc(w.states, func(s *state) bool { return s.does() == nothing })
}

// settle gives an end to what has none, and returns an error for what a lease cannot be.
func (w *world) settle(without time.Duration) error {
	var first *state
	for _, s := range w.states {
		does := s.does()
		if does == nothing || does == releases {
			continue
		}
		if s.ttl == 0 {
			s.ttl = without
		}
		switch {
		case s.ttl == 0:
			return errors.New("ERR " + needsEnd)
		case does == overwrites:
			return errors.New("ERR the script gives a lock that is held another token: it is released first, and then acquired")
		case does == acquires && first != nil && (first.token != s.token || first.ttl != s.ttl):
			return errors.New("ERR the script acquires several locks, which are to have one token and one time to live")
		case does == acquires:
			first = s
		}
	}
	return nil
}

func (w *world) of(key string) *state {
	for _, s := range w.states {
		if s.key == key {
			return s
		}
	}
	return nil
}

// functions are what a script has of Lua. The rest reads files, or takes more time or memory than
// its instructions tell.
var functions = map[string][]string{
	"":       {"assert", "error", "ipairs", "next", "pairs", "pcall", "select", "tonumber", "tostring", "type", "unpack"},
	"string": {"byte", "len", "lower", "sub", "upper"},
	"table":  {"insert", "remove"},
	"math":   {"abs", "ceil", "floor", "max", "min"},
}

// mostIndex bounds the list that one instruction makes: the interpreter fills the places before an
// index, with 16 bytes each. Behind it, it stores what is there.
const mostIndex = 4 << 10

func init() { lua.MaxArrayIndex = mostIndex }

// interpreter runs one script, again and again. Its globals are of one run, and what all runs share
// cannot be written: nothing of one client's run is left for the next one's.
type interpreter struct {
	lua    *lua.LState
	shared *lua.LTable // what all runs share, and the KEYS and ARGV of the run, which are its own
	outer  *lua.LTable // the metatable of the globals of a run, where shared is found
	world  *world      // of the run
}

func newInterpreter() *interpreter {
	l := lua.NewState(lua.Options{
		SkipOpenLibs: true, CallStackSize: 64, MinimizeStackMemory: true, RegistrySize: 512, RegistryMaxSize: 16 << 10, RegistryGrowStep: 512,
	})
	lua.OpenBase(l)
	lua.OpenString(l)
	lua.OpenTable(l)
	lua.OpenMath(l)
	shared := l.NewTable()
	module := func(name string) *lua.LTable { // a value with fields, and no table that table.insert takes
		fields, meta, value := l.NewTable(), l.NewTable(), l.NewUserData()
		meta.RawSetString("__index", fields)
		value.Metatable = meta
		shared.RawSetString(name, value)
		return fields
	}
	var texts *lua.LTable
	for name, names := range functions {
		from, to := l.G.Global, shared
		if name != "" {
			from, to = from.RawGetString(name).(*lua.LTable), module(name)
		}
		if name == "string" {
			texts = to
		}
		for _, name := range names {
			to.RawSetString(name, from.RawGetString(name))
		}
	}
	// Texts have methods, as in text:rep(9), which are to be the same.
	methods := l.NewTable()
	methods.RawSetString("__index", texts)
	l.SetMetatable(lua.LString(""), methods)

	in := &interpreter{lua: l, shared: shared, outer: l.NewTable()}
	in.outer.RawSetString("__index", shared)
	redis := module("redis")
	redis.RawSetString("call", l.NewFunction(func(l *lua.LState) int { return in.world.call(l) }))
	redis.RawSetString("pcall", l.NewFunction(func(l *lua.LState) int { return in.world.pcall(l) }))
	redis.RawSetString("log", l.NewFunction(func(*lua.LState) int { return 0 }))
	redis.RawSetString("status_reply", l.NewFunction(replying("ok")))
	redis.RawSetString("error_reply", l.NewFunction(replying("err")))
	redis.RawSetString("replicate_commands", l.NewFunction(func(l *lua.LState) int { l.Push(lua.LTrue); return 1 }))
	for i, level := range []string{"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"} {
		redis.RawSetString(level, lua.LNumber(i))
	}
	return in
}

// run runs a script in the world, and returns what it returned.
func (w *world) run(ctx context.Context, s *script, argv []string) (reply lua.LValue, err error) {
	defer func() {
		if r := recover(); r != nil { // of the interpreter, when its registry is full
			err = fmt.Errorf("ERR Error running script: %v", r)
		}
	}()
	in, _ := s.idle.Get().(*interpreter)
	if in == nil {
		in = newInterpreter()
	}
	l := in.lua
	in.world = w
	// NewTable would make room for 32 fields of each, which takes longer than the script.
	globals, keys, args := l.CreateTable(0, 0), l.CreateTable(len(w.states), 0), l.CreateTable(len(argv), 0)
	globals.Metatable = in.outer
	for _, st := range w.states {
		keys.Append(lua.LString(st.key))
	}
	for _, arg := range argv {
		args.Append(lua.LString(arg))
	}
	in.shared.RawSetString("KEYS", keys)
	in.shared.RawSetString("ARGV", args)
	l.SetContext(&budget{ctx, mostInstructions})
	f := l.NewFunctionFromProto(s.proto)
	f.Env = globals
	l.Push(f)
	if err := l.PCall(0, 1, nil); err != nil { // and its interpreter is not used again
		return nil, fmt.Errorf("ERR Error running script: %w", plainError(err))
	}
	reply = l.Get(-1)
	l.SetTop(0)
	l.RemoveContext()
	in.world = nil
	s.idle.Put(in)
	return reply, nil
}

// plainError returns the error of a script without the trace of the interpreter.
func plainError(err error) error {
	var api *lua.ApiError
	if !errors.As(err, &api) {
		return err
	}
	if t, ok := api.Object.(*lua.LTable); ok {
		return errors.New(lua.LVAsString(t.RawGetString("err")))
	}
	return errors.New(strings.TrimSpace(lua.LVAsString(api.Object)))
}

func replying(field string) lua.LGFunction {
	return func(l *lua.LState) int {
		t := l.NewTable()
		t.RawSetString(field, lua.LString(l.CheckString(1)))
		l.Push(t)
		return 1
	}
}

// call is redis.call, and pcall the one that returns its error.
func (w *world) call(l *lua.LState) int {
	v, err := w.do(l)
	if err != nil {
		l.RaiseError("%s", err.Error())
	}
	l.Push(v)
	return 1
}

func (w *world) pcall(l *lua.LState) int {
	v, err := w.do(l)
	if err != nil {
		t := l.NewTable()
		t.RawSetString("err", lua.LString(err.Error()))
		v = t
	}
	l.Push(v)
	return 1
}
