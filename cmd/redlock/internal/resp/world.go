package resp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
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

var (
	errArguments = errors.New("ERR wrong number of arguments for a command of the script")
	errNumber    = errors.New("ERR value is not an integer or out of range")
)

// do runs one command in the world.
func (w *world) do(l *lua.LState) (lua.LValue, error) {
	var args []string
	for i := 1; i <= l.GetTop(); i++ {
		switch v := l.Get(i).(type) {
		case lua.LString:
			args = append(args, string(v))
		case lua.LNumber:
			args = append(args, strconv.FormatFloat(float64(v), 'f', -1, 64))
		default:
			return nil, errors.New("ERR Lua redis lib command arguments must be strings or integers")
		}
	}
	if len(args) == 0 {
		return nil, errArguments
	}
	name, args := strings.ToUpper(args[0]), args[1:]
	switch name { // those without keys
	case "PUBLISH":
		return lua.LNumber(0), nil // nobody listens here; who waits asks again
	case "PING":
		return w.ok(l), nil
	case "TIME":
		t := l.NewTable()
		t.Append(lua.LString(strconv.FormatInt(w.wall.Unix(), 10)))
		t.Append(lua.LString(strconv.Itoa(w.wall.Nanosecond() / 1000)))
		return t, nil
	case "MGET", "MSET", "MSETNX", "EXISTS", "DEL", "UNLINK":
		return w.doMany(l, name, args)
	}
	least, known := leastArguments[name]
	if !known {
		return nil, fmt.Errorf("ERR the script needs %.40q: %s", name, whatThisIs)
	}
	if len(args) < least {
		return nil, errArguments
	}
	s := w.of(args[0])
	if s == nil {
		return nil, errStranger(args[0])
	}
	switch name {
	case "SET", "SETNX", "SETEX", "PSETEX":
		return w.set(l, s, name, args[1:])
	case "EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT":
		return w.expire(s, name, args[1:])
	}
	return w.read(s, name, args[1:])
}

// leastArguments of the commands of one key.
var leastArguments = map[string]int{
	"GET": 1, "STRLEN": 1, "TTL": 1, "PTTL": 1, "GETRANGE": 3,
	"SET": 2, "SETNX": 2, "SETEX": 3, "PSETEX": 3, "EXPIRE": 2, "PEXPIRE": 2, "PEXPIREAT": 2, "EXPIREAT": 2,
}

func errStranger(key string) error {
	return fmt.Errorf("ERR the script uses %.40q, which is none of its KEYS: %s", key, whatThisIs)
}

func (*world) ok(l *lua.LState) lua.LValue {
	t := l.CreateTable(0, 1)
	t.RawSetString("ok", lua.LString("OK"))
	return t
}

// doMany runs commands of any number of keys.
func (w *world) doMany(l *lua.LState, name string, args []string) (lua.LValue, error) {
	step := 1
	if name == "MSET" || name == "MSETNX" {
		step = 2
	}
	if len(args) == 0 || len(args)%step != 0 {
		return nil, errArguments
	}
	list, n := l.CreateTable(len(args), 0), 0
	for i := 0; i < len(args); i += step {
		s := w.of(args[i])
		if s == nil {
			return nil, errStranger(args[i])
		}
		list.Append(textOf(s))
		if s.held {
			n++
		}
		if s.held && (name == "DEL" || name == "UNLINK") {
			s.delete()
		}
	}
	switch name {
	case "MGET":
		return list, nil
	case "MSETNX", "MSET":
		if name == "MSETNX" && n > 0 {
			return lua.LNumber(0), nil
		}
		for i := 0; i < len(args); i += 2 {
			w.of(args[i]).write(args[i+1], 0)
		}
		if name == "MSET" {
			return w.ok(l), nil
		}
		return lua.LNumber(1), nil
	}
	return lua.LNumber(n), nil
}

func textOf(s *state) lua.LValue {
	if !s.held {
		return lua.LFalse
	}
	return lua.LString(s.token)
}

func (w *world) read(s *state, name string, args []string) (lua.LValue, error) {
	switch name {
	case "STRLEN":
		return lua.LNumber(len(s.token)), nil
	case "GETRANGE":
		from, err := strconv.Atoi(args[0])
		to, bad := strconv.Atoi(args[1])
		if err != nil || bad != nil {
			return nil, errNumber
		}
		n := len(s.token)
		if from < 0 {
			from = max(n+from, 0)
		}
		if to < 0 {
			to = n + to
		}
		if to = min(to, n-1); from > to {
			return lua.LString(""), nil
		}
		return lua.LString(s.token[from : to+1]), nil
	case "TTL", "PTTL":
		switch {
		case !s.held:
			return lua.LNumber(-2), nil
		case w.guessed && !s.spans:
			w.unguessed = true
			return nil, errors.New("nobody has asked the masters yet")
		case s.spans && s.ttl == 0:
			return lua.LNumber(-1), nil
		case name == "PTTL":
			return lua.LNumber(s.left.Milliseconds()), nil
		}
		return lua.LNumber(s.left.Round(time.Second) / time.Second), nil
	}
	return textOf(s), nil
}

// set is SET and what is short for it, behind its key.
func (w *world) set(l *lua.LState, s *state, name string, args []string) (lua.LValue, error) {
	token, options := args[0], args[1:]
	switch name {
	case "SETNX":
		if s.held {
			return lua.LNumber(0), nil
		}
		s.write(token, 0)
		return lua.LNumber(1), nil
	case "SETEX":
		token, options = args[1], []string{"EX", args[0]}
	case "PSETEX":
		token, options = args[1], []string{"PX", args[0]}
	}
	ttl := time.Duration(0)
	for ; len(options) > 0; options = options[1:] {
		switch option := strings.ToUpper(options[0]); option {
		case "NX", "XX":
			if s.held == (option == "NX") {
				return lua.LFalse, nil
			}
		case "EX", "PX", "EXAT", "PXAT":
			if len(options) < 2 {
				return nil, errArguments
			}
			var err error
			if ttl, err = w.span(option, options[1]); err != nil {
				return nil, err
			}
			if ttl <= 0 {
				return nil, errors.New("ERR invalid expire time in 'set' command")
			}
			options = options[1:]
		default:
			return nil, fmt.Errorf("ERR syntax error: no option %.40q of SET in a script", option)
		}
	}
	s.write(token, ttl)
	return w.ok(l), nil
}

func (w *world) expire(s *state, name string, args []string) (lua.LValue, error) {
	how := strings.Replace(strings.Replace(name, "PEXPIRE", "PX", 1), "EXPIRE", "EX", 1)
	d, err := w.span(how, args[0])
	switch {
	case err != nil:
		return nil, err
	case len(args) > 1 && !strings.EqualFold(args[1], "XX") && !strings.EqualFold(args[1], "GT"):
		return nil, fmt.Errorf("ERR a lock is only extended: no option %.40q", args[1])
	case !s.held:
		return lua.LNumber(0), nil
	case d <= 0:
		s.delete()
	default:
		s.expire(d)
	}
	return lua.LNumber(1), nil
}

// span reads a time to live, as EX, PX, EXAT and PXAT have it. What Lua computed may have a
// fraction.
func (w *world) span(how, text string) (time.Duration, error) {
	n, err := strconv.ParseFloat(text, 64)
	unit := time.Second
	if how[0] == 'P' {
		unit = time.Millisecond
	}
	if err != nil || n != n || n > 1e18/float64(unit) || n < -1e18/float64(unit) { //nolint:gocritic // not a number
		return 0, errNumber
	}
	d := time.Duration(n) * unit
	if strings.HasSuffix(how, "AT") {
		d = time.UnixMilli(0).Add(d).Sub(w.wall)
	}
	return d, nil
}
