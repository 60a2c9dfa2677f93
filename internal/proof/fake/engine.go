package fake

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
)

// scriptName is what Redis calls a script in its errors.
const scriptName = "user_script"

const (
	callStack    = 200     // Lua's own limit for C calls; scripts nest little
	registry     = 1 << 10 // initial number of values on the Lua stack
	registryMost = 1 << 16 // and the most: unpack of a few thousand keys fits
)

// engine is a Lua interpreter. It runs one script at a time, under its node's mutex. Scripts leave
// nothing behind, so another node can use a closed node's engine: making one takes longer than a
// short simulation runs.
type engine struct {
	node      *Node    // that the scripts run on
	session   *session // that the running script belongs to
	state     *lua.LState
	globals   *lua.LTable               // what scripts see
	env       *lua.LTable               // the read-only view through which they see it
	functions map[string]*lua.LFunction // scripts by digest
}

// engines holds those that no node needs now.
var engines = sync.Pool{New: func() any {
	e := &engine{
		state: lua.NewState(lua.Options{
			SkipOpenLibs: true, CallStackSize: callStack, RegistrySize: registry, RegistryMaxSize: registryMost,
		}),
		functions: make(map[string]*lua.LFunction),
	}
	e.openLibraries()
	return e
}}

// borrowEngine returns an engine for a node, to be returned with release.
func borrowEngine(n *Node) *engine {
	e := engines.Get().(*engine)
	e.node = n
	return e
}

// release returns an engine. Nil is allowed.
func (e *engine) release() {
	if e != nil {
		e.node = nil
		engines.Put(e)
	}
}

// run executes a script and returns its reply.
func (e *engine) run(s *session, digest, source string, keys, argv []string) reply {
	function, err := e.function(digest, source)
	if err != nil {
		return oneLine("ERR " + err.Error())
	}
	e.session = s
	e.globals.RawSetString("KEYS", e.texts(keys))
	e.globals.RawSetString("ARGV", e.texts(argv))
	e.state.Push(function)
	err = e.state.PCall(0, 1, nil)
	e.session = nil
	if err != nil {
		e.state.SetTop(0)
		return scriptFailure(err, digest)
	}
	result := e.state.Get(-1)
	answer := fromLua(result, 0)
	e.state.SetTop(0)
	return answer
}

func (e *engine) function(digest, source string) (*lua.LFunction, error) {
	if function, ok := e.functions[digest]; ok {
		return function, nil
	}
	proto, err := compileScript(digest, source)
	if err != nil {
		return nil, err
	}
	if len(e.functions) >= maxCompiled {
		clear(e.functions)
	}
	function := e.state.NewFunctionFromProto(proto)
	function.Env = e.env
	e.functions[digest] = function
	return function, nil
}

func (e *engine) texts(texts []string) *lua.LTable {
	t := e.state.CreateTable(len(texts), 0)
	for _, text := range texts {
		t.Append(lua.LString(text))
	}
	return t
}

// scriptFailure says how and where a script failed, in the words of Redis.
func scriptFailure(err error, digest string) reply {
	text, line := "ERR "+err.Error(), "1"
	var failed *lua.ApiError
	if errors.As(err, &failed) {
		switch thrown := failed.Object.(type) {
		case *lua.LTable:
			text = thrown.RawGetString("err").String()
			if at, ok := thrown.RawGetString("line").(lua.LString); ok {
				line = string(at)
			}
		default:
			text = "ERR " + thrown.String()
			if rest, ok := strings.CutPrefix(thrown.String(), scriptName+":"); ok {
				line, _, _ = strings.Cut(rest, ":")
			}
		}
	}
	return oneLine(fmt.Sprintf("%s script: %s, on @%s:%s.", text, digest, scriptName, line))
}

// maxDepth bounds how deep a script's result may nest, as in Redis.
const maxDepth = 100

// fromLua converts a script's result as Redis does.
func fromLua(v lua.LValue, depth int) reply {
	switch v := v.(type) {
	case lua.LString:
		return bulk(string(v))
	case lua.LNumber:
		return integer(int64(v))
	case lua.LBool:
		if v {
			return integer(1)
		}
		return replyNil
	case *lua.LTable:
		if depth > maxDepth {
			return failure("ERR reached lua stack limit")
		}
		return fromTable(v, depth)
	}
	return replyNil
}

func fromTable(t *lua.LTable, depth int) reply {
	if text, ok := t.RawGetString("err").(lua.LString); ok {
		return oneLine(string(text))
	}
	if text, ok := t.RawGetString("ok").(lua.LString); ok {
		return status(oneLine(string(text)).text)
	}
	if number, ok := t.RawGetString("double").(lua.LNumber); ok {
		return bulk(formatNumber(float64(number), 17))
	}
	answer := array()
	for i := 1; ; i++ {
		item := t.RawGetInt(i)
		if item == lua.LNil {
			return answer
		}
		answer.items = append(answer.items, fromLua(item, depth+1))
	}
}

// toLua converts a command's reply for a script as Redis does.
func (e *engine) toLua(r reply) lua.LValue {
	switch r.kind {
	case kindStatus:
		t := e.state.CreateTable(0, 1)
		t.RawSetString("ok", lua.LString(r.text))
		return t
	case kindError:
		return e.errorTable(r.text)
	case kindInteger:
		return lua.LNumber(r.number)
	case kindBulk:
		return lua.LString(r.text)
	case kindArray, kindSeveral:
		t := e.state.CreateTable(len(r.items), 0)
		for _, item := range r.items {
			t.Append(e.toLua(item))
		}
		return t
	case kindNone, kindNil:
	}
	return lua.LFalse
}

func (e *engine) errorTable(text string) *lua.LTable {
	t := e.state.CreateTable(0, 2)
	t.RawSetString("err", lua.LString(text))
	return t
}
