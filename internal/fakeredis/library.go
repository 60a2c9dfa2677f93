package fakeredis

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// globalNames is what scripts need of what Redis 7.0 leaves of Lua's base library.
var globalNames = []string{
	"assert", "ipairs", "math", "next", "pairs", "select", "string", "table", "type", "unpack",
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
		"tostring": toString, "tonumber": toNumber, "pcall": protectedCall, concatOperand: operand,
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
	view := e.state.NewTable()
	view.Metatable = meta
	return view
}

// redisLibrary returns the table redis.
func (e *engine) redisLibrary() *lua.LTable {
	library := e.state.NewTable()
	e.state.SetFuncs(library, map[string]lua.LGFunction{
		"call": e.call, "pcall": e.pcall, "error_reply": e.errorReply, "sha1hex": sha1hex,
	})
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
	message := strings.TrimPrefix(state.CheckString(1), "-")
	if !strings.Contains(message, " ") {
		message = "ERR " + message
	}
	state.Push(e.errorTable(message))
	return 1
}

func sha1hex(state *lua.LState) int {
	state.Push(lua.LString(digestOf(state.CheckString(1))))
	return 1
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

// luaText writes a number as Lua 5.1 does (%.14g), and other values as gopher-lua does.
func luaText(v lua.LValue) lua.LValue {
	if number, ok := v.(lua.LNumber); ok {
		return lua.LString(formatNumber(float64(number), 14))
	}
	return v
}

// toString is Lua's tostring.
func toString(state *lua.LState) int {
	v := luaText(state.CheckAny(1))
	state.Push(state.ToStringMeta(v))
	return 1
}

// operand prepares an operand of .. (see convertConcat).
func operand(state *lua.LState) int {
	state.Push(luaText(state.Get(1)))
	return 1
}

// toNumber is Lua's tonumber, which reads what C's strtod and strtoul read.
func toNumber(state *lua.LState) int {
	v, base := state.CheckAny(1), state.OptInt(2, 10)
	if text, ok := v.(lua.LString); ok {
		v = parseNumber(strings.Trim(string(text), " \t\n\v\f\r"), base)
	}
	if _, ok := v.(lua.LNumber); !ok {
		v = lua.LNil
	}
	state.Push(v)
	return 1
}

func parseNumber(text string, base int) lua.LValue {
	digits, isHex := strings.CutPrefix(strings.ToLower(text), "0x")
	if isHex && base == 10 {
		base = 16
	}
	if base != 10 {
		number, err := strconv.ParseUint(digits, base, 64)
		if err != nil {
			return lua.LNil
		}
		return lua.LNumber(number)
	}
	number, err := strconv.ParseFloat(text, 64)
	if (err != nil && !math.IsInf(number, 0)) || strings.Contains(text, "_") {
		return lua.LNil
	}
	return lua.LNumber(number)
}

// tableConcat is Lua's table.concat.
func tableConcat(state *lua.LState) int {
	table := state.CheckTable(1)
	from, to := state.OptInt(3, 1), state.OptInt(4, table.Len())
	var text strings.Builder
	for i := from; i <= to; i++ {
		item, ok := luaText(table.RawGetInt(i)).(lua.LString)
		if !ok {
			state.RaiseError("invalid value (%s) at index %d in table for 'concat'", table.RawGetInt(i).Type(), i)
		}
		text.WriteString(string(item))
		if i < to {
			text.WriteString(state.OptString(2, ""))
		}
	}
	state.Push(lua.LString(text.String()))
	return 1
}

// stringFormat is Lua's string.format with the conversions s and f.
func stringFormat(state *lua.LState) int {
	format := state.CheckString(1)
	var text strings.Builder
	for arg := 2; ; arg++ {
		before, rest, found := strings.Cut(format, "%")
		text.WriteString(before)
		if !found {
			state.Push(lua.LString(text.String()))
			return 1
		}
		spec := rest[:len(rest)-len(strings.TrimLeft(rest, "-+ #0123456789."))]
		conversion := strings.TrimPrefix(rest, spec)
		switch {
		case strings.HasPrefix(conversion, "s"):
			fmt.Fprintf(&text, "%"+spec+"s", luaText(state.CheckAny(arg)).String())
		case strings.HasPrefix(conversion, "f"):
			text.WriteString(convertFloat(float64(state.CheckNumber(arg)), spec))
		default:
			state.RaiseError("invalid option '%%%s' to 'format'", rest)
		}
		format = conversion[1:]
	}
}

// convertFloat is C's %f with these flags, width and precision.
func convertFloat(x float64, spec string) string {
	if spec == ".0" && math.Abs(x) <= math.MaxFloat64 { // as scripts have it
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	if math.IsInf(x, 0) || math.IsNaN(x) {
		width, _, _ := strings.Cut(strings.ReplaceAll(spec, "0", ""), ".")
		return fmt.Sprintf("%"+width+"s", formatNumber(x, 1))
	}
	return fmt.Sprintf("%"+spec+"f", x)
}
