package resp

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"
)

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
	if err != nil || n != n || n > 1e18/float64(unit) || n < -1e18/float64(unit) { // not a number
		return 0, errNumber
	}
	d := time.Duration(n) * unit
	if strings.HasSuffix(how, "AT") {
		d = time.UnixMilli(0).Add(d).Sub(w.wall)
	}
	return d, nil
}
