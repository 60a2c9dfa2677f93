package fake

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

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
	v := state.CheckAny(1)
	base := state.OptInt(2, 10)
	text, ok := v.(lua.LString)
	switch number, isNumber := v.(lua.LNumber); {
	case isNumber && base == 10:
		state.Push(number)
	case isNumber:
		state.Push(parseNumber(formatNumber(float64(number), 14), base))
	case ok:
		state.Push(parseNumber(string(text), base))
	default:
		state.Push(lua.LNil)
	}
	return 1
}

func parseNumber(text string, base int) lua.LValue {
	text = strings.Trim(text, " \t\n\v\f\r")
	digits, isHex := strings.CutPrefix(strings.ToLower(text), "0x")
	if base != 10 || isHex {
		if isHex && (base == 10 || base == 16) {
			text, base = digits, 16
		}
		number, err := strconv.ParseUint(text, base, 64)
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

// stringFormat is Lua's string.format, with C's conversions.
func stringFormat(state *lua.LState) int {
	format := state.CheckString(1)
	var text strings.Builder
	arg := 1
	for {
		before, rest, found := strings.Cut(format, "%")
		text.WriteString(before)
		if !found {
			state.Push(lua.LString(text.String()))
			return 1
		}
		if after, ok := strings.CutPrefix(rest, "%"); ok {
			text.WriteByte('%')
			format = after
			continue
		}
		end := strings.IndexFunc(rest, func(c rune) bool { return !strings.ContainsRune("-+ #0123456789.", c) })
		if end < 0 {
			state.RaiseError("invalid option '%%' to 'format'")
		}
		arg++
		text.WriteString(convert(state, arg, rest[:end], rest[end]))
		format = rest[end+1:]
	}
}

// convert formats the argument at that index by spec (flags, width and precision) and conversion.
func convert(state *lua.LState, arg int, spec string, conversion byte) string {
	switch conversion {
	case 'd', 'i':
		return fmt.Sprintf("%"+spec+"d", int64(state.CheckNumber(arg)))
	case 'u':
		return fmt.Sprintf("%"+spec+"d", uint64(int64(state.CheckNumber(arg))))
	case 'x', 'X', 'o':
		return fmt.Sprintf("%"+spec+string(conversion), uint64(int64(state.CheckNumber(arg))))
	case 'c':
		return string([]byte{byte(int64(state.CheckNumber(arg)))})
	case 'e', 'E', 'f', 'g', 'G':
		return convertFloat(float64(state.CheckNumber(arg)), spec, conversion)
	case 'q':
		return quote(state.CheckString(arg))
	case 's':
		return fmt.Sprintf("%"+spec+"s", luaText(state.CheckAny(arg)).String())
	}
	state.RaiseError("invalid option '%%%c' to 'format'", conversion)
	return ""
}

func convertFloat(x float64, spec string, conversion byte) string {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		width, _, _ := strings.Cut(strings.ReplaceAll(spec, "0", ""), ".")
		return fmt.Sprintf("%"+width+"s", formatNumber(x, 1))
	}
	if !strings.Contains(spec, ".") {
		spec += ".6" // C's default, not Go's shortest form
	}
	return fmt.Sprintf("%"+spec+string(conversion), x)
}

// quote writes a string so that Lua reads it back.
func quote(text string) string {
	return `"` + strings.NewReplacer("\\", `\\`, `"`, `\"`, "\n", "\\\n", "\r", `\r`, "\x00", `\000`).Replace(text) + `"`
}
