package fake

import (
	"errors"
	"math"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// globalNames is what Redis 7.0 leaves of Lua's base library, without coroutine, getmetatable,
// load, loadstring and rawset.
var globalNames = []string{
	"_VERSION", "assert", "collectgarbage", "error", "ipairs", "math", "next", "pairs", "pcall",
	"rawequal", "rawget", "select", "setmetatable", "string", "table", "tonumber", "tostring", "type", "unpack",
	"xpcall",
}

// openLibraries fills globals with Lua's libraries as Redis leaves them, and with the library
// redis.
func (e *engine) openLibraries() {
	state := e.state
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString,
		lua.MathLibName: lua.OpenMath,
	} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	// In gopher-lua it is the largest finite number.
	state.SetField(state.GetGlobal("math"), "huge", lua.LNumber(math.Inf(1)))
	state.SetField(state.GetGlobal("string"), "format", state.NewFunction(stringFormat))
	state.SetField(state.GetGlobal("table"), "concat", state.NewFunction(tableConcat))
	e.globals = state.NewTable()
	for _, name := range globalNames {
		e.globals.RawSetString(name, e.readonly(state.GetGlobal(name)))
	}
	for name, function := range map[string]lua.LGFunction{
		"tostring": toString, "tonumber": toNumber, "error": raise, "pcall": protectedCall, concatOperand: operand,
	} {
		e.globals.RawSetString(name, state.NewFunction(function))
	}
	e.globals.RawSetString("redis", e.readonly(e.redisLibrary()))

	missing := state.NewTable()
	missing.RawSetString("__index", state.NewFunction(func(state *lua.LState) int {
		state.RaiseError("Script attempted to access nonexistent global variable '%s'", state.ToString(2))
		return 0
	}))
	e.globals.Metatable = missing
	e.env = e.readonly(e.globals).(*lua.LTable)
	e.globals.RawSetString("_G", e.env)
}

// readonly returns a read-only view of a table, and any other value as it is.
func (e *engine) readonly(v lua.LValue) lua.LValue {
	if _, ok := v.(*lua.LTable); !ok {
		return v
	}
	meta := e.state.NewTable()
	meta.RawSetString("__index", v)
	meta.RawSetString("__newindex", e.state.NewFunction(func(state *lua.LState) int {
		state.RaiseError("Attempt to modify a readonly table")
		return 0
	}))
	meta.RawSetString("__metatable", lua.LFalse)
	view := e.state.NewTable()
	view.Metatable = meta
	return view
}

// redisLibrary returns the table redis.
func (e *engine) redisLibrary() *lua.LTable {
	library := e.state.NewTable()
	e.state.SetFuncs(library, map[string]lua.LGFunction{
		"call":               e.call,
		"pcall":              e.pcall,
		"error_reply":        e.errorReply,
		"status_reply":       e.statusReply,
		"sha1hex":            sha1hex,
		"log":                func(*lua.LState) int { return 0 },
		"replicate_commands": func(state *lua.LState) int { state.Push(lua.LTrue); return 1 },
	})
	for level, name := range []string{"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"} {
		library.RawSetString(name, lua.LNumber(level))
	}
	library.RawSetString("REDIS_VERSION", lua.LString(version))
	return library
}

// call is redis.call: errors are raised.
func (e *engine) call(state *lua.LState) int {
	r := e.command(state)
	if r.kind == kindError {
		failed := e.errorTable(r.text)
		failed.RawSetString("line", callerLine(state))
		state.Error(failed, 0)
	}
	state.Push(e.toLua(r))
	return 1
}

// pcall is redis.pcall: errors are returned.
func (e *engine) pcall(state *lua.LState) int {
	state.Push(e.toLua(e.command(state)))
	return 1
}

// command runs the command that is on the Lua stack.
func (e *engine) command(state *lua.LState) reply {
	count := state.GetTop()
	if count == 0 {
		return failure("ERR Please specify at least one argument for this redis lib call")
	}
	args := make([]string, count)
	for i := range args {
		switch v := state.Get(i + 1).(type) {
		case lua.LString:
			args[i] = string(v)
		case lua.LNumber:
			args[i] = formatNumber(float64(v), 17)
		default:
			return failure("ERR Lua redis lib command arguments must be strings or integers")
		}
	}
	return e.node.callLocked(e.session, args)
}

// errorReply is redis.error_reply: the first word is the error's code, or ERR if there is only one
// word.
func (e *engine) errorReply(state *lua.LState) int {
	text, ok := state.Get(1).(lua.LString)
	if !ok || state.GetTop() != 1 {
		state.Push(e.errorTable("ERR wrong number or type of arguments"))
		return 1
	}
	message := strings.TrimRight(strings.TrimPrefix(string(text), "-"), "\r\n")
	if !strings.Contains(message, " ") {
		message = "ERR " + message
	}
	state.Push(e.errorTable(message))
	return 1
}

// statusReply is redis.status_reply.
func (e *engine) statusReply(state *lua.LState) int {
	text, ok := state.Get(1).(lua.LString)
	if !ok || state.GetTop() != 1 {
		state.Push(e.errorTable("ERR wrong number or type of arguments"))
		return 1
	}
	state.Push(e.toLua(status(string(text))))
	return 1
}

func sha1hex(state *lua.LState) int {
	state.Push(lua.LString(digestOf(state.CheckString(1))))
	return 1
}

// raise is Lua's error. A thrown table gets the line.
func raise(state *lua.LState) int {
	thrown, level := state.Get(1), state.OptInt(2, 1)
	switch v := thrown.(type) {
	case *lua.LTable:
		if v.RawGetString("line") == lua.LNil {
			v.RawSetString("line", callerLine(state))
		}
		level = 0
	case lua.LString:
	default:
		level = 0
	}
	state.Error(thrown, level)
	return 0
}

// protectedCall is Redis's pcall: it returns the text of an error in a table.
func protectedCall(state *lua.LState) int {
	state.CheckAny(1)
	err := state.PCall(state.GetTop()-1, lua.MultRet, nil)
	if err == nil {
		state.Insert(lua.LTrue, 1)
		return state.GetTop()
	}
	var thrown lua.LValue = lua.LString(err.Error())
	var failed *lua.ApiError
	if errors.As(err, &failed) {
		thrown = failed.Object
	}
	if table, ok := thrown.(*lua.LTable); ok {
		if text, ok := table.RawGetString("err").(lua.LString); ok {
			thrown = text
		}
	}
	state.SetTop(0)
	state.Push(lua.LFalse)
	state.Push(thrown)
	return 2
}

// callerLine returns the line of the script that called the running function.
func callerLine(state *lua.LState) lua.LValue {
	_, line, _ := strings.Cut(strings.TrimSuffix(state.Where(1), ":"), ":")
	return lua.LString(line)
}
