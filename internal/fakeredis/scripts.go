package fakeredis

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

const noScript = "NOSCRIPT No matching script. Please use EVAL."

func scriptCommands() []command {
	return []command{
		{name: "eval", arity: -3, run: eval, noScript: true},
		{name: "evalsha", arity: -3, run: evalSHA, noScript: true},
		{name: "script", arity: -2, run: script, noScript: true},
	}
}

func digestOf(source string) string {
	compiled.mu.Lock()
	known, ok := compiled.sources[source]
	compiled.mu.Unlock()
	if ok {
		return known.digest
	}
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

func eval(n *Node, s *session, args []string) reply {
	keys, argv, fail := splitScriptArgs(args)
	if fail != nil {
		return *fail
	}
	digest := digestOf(args[1])
	if fail := n.loadScript(digest, args[1]); fail != nil {
		return *fail
	}
	return n.runScript(s, digest, keys, argv)
}

func evalSHA(n *Node, s *session, args []string) reply {
	keys, argv, fail := splitScriptArgs(args)
	if fail != nil {
		return *fail
	}
	digest := strings.ToLower(args[1])
	if _, ok := n.process.scripts[digest]; !ok {
		return failure(noScript)
	}
	return n.runScript(s, digest, keys, argv)
}

// splitScriptArgs splits what follows the script into KEYS and ARGV.
func splitScriptArgs(args []string) (keys, argv []string, fail *reply) {
	count, ok := parseInt(args[2])
	if !ok {
		return nil, nil, &notInteger
	}
	if count < 0 || count > int64(len(args)-3) {
		r := failure("ERR Number of keys can't be greater than number of args")
		return nil, nil, &r
	}
	return args[3 : 3+count], args[3+count:], nil
}

// loadScript compiles a script, unless it is compiled, and makes it known to EVALSHA.
func (n *Node) loadScript(digest, source string) *reply {
	if _, ok := n.process.scripts[digest]; ok {
		return nil
	}
	if _, err := compileScript(digest, source); err != nil {
		r := oneLine("ERR Error compiling script (new function): " + err.Error())
		return &r
	}
	n.process.scripts[digest] = source
	return nil
}

// runScript runs a known script for a client. The client's database stays selected.
func (n *Node) runScript(s *session, digest string, keys, argv []string) reply {
	if text := n.rules.scripts.next(); text != "" {
		return failure(text)
	}
	if n.engine == nil {
		n.engine = borrowEngine(n)
	}
	db := s.db
	answer := n.engine.run(s, digest, n.process.scripts[digest], keys, argv)
	s.db = db
	return answer
}

// script serves SCRIPT LOAD and FLUSH.
func script(n *Node, _ *session, args []string) reply {
	sub := strings.ToLower(args[1])
	switch {
	case sub == "load" && len(args) == 3:
		digest := digestOf(args[2])
		if fail := n.loadScript(digest, args[2]); fail != nil {
			return *fail
		}
		return bulk(digest)
	case sub == "flush" && len(args) == 2:
		clear(n.process.scripts)
		return replyOK
	}
	return unsupported(strings.Join(args, " "))
}

// scriptName is what Redis calls a script in its errors.
const scriptName = "user_script"

const (
	callStack    = 200     // Lua's own limit for C calls; scripts nest little
	registry     = 1 << 10 // initial number of values on the Lua stack
	registryMost = 1 << 16 // and the most: unpack of a few thousand keys fits

	opcodeShift = 26 // of an instruction of gopher-lua
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
	answer := fromLua(result)
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
	function := e.state.NewFunctionFromProto(proto)
	if function.Env = e.globals; setsGlobals(proto) { // which the view refuses
		function.Env = e.env
	}
	e.functions[digest] = function
	return function, nil
}

// setsGlobals reports whether code may assign to a global variable.
func setsGlobals(proto *lua.FunctionProto) bool {
	return slices.ContainsFunc(proto.Code, func(inst uint32) bool { return int(inst>>opcodeShift) == lua.OP_SETGLOBAL }) ||
		slices.ContainsFunc(proto.FunctionPrototypes, setsGlobals)
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
		if thrown, ok := failed.Object.(*lua.LTable); ok { // by redis.call
			text, line = thrown.RawGetString("err").String(), thrown.RawGetString("line").String()
		} else if text = "ERR " + failed.Object.String(); strings.HasPrefix(text, "ERR "+scriptName+":") {
			line, _, _ = strings.Cut(strings.TrimPrefix(text, "ERR "+scriptName+":"), ":")
		}
	}
	return oneLine(fmt.Sprintf("%s script: %s, on @%s:%s.", text, digest, scriptName, line))
}

// fromLua converts a script's result as Redis does.
func fromLua(v lua.LValue) reply {
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
		return fromTable(v)
	}
	return replyNil
}

func fromTable(t *lua.LTable) reply {
	if text, ok := t.RawGetString("err").(lua.LString); ok {
		return oneLine(string(text))
	}
	if text, ok := t.RawGetString("ok").(lua.LString); ok {
		return status(oneLine(string(text)).text)
	}
	answer := array()
	for i := 1; ; i++ {
		item := t.RawGetInt(i)
		if item == lua.LNil {
			return answer
		}
		answer.items = append(answer.items, fromLua(item))
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
	case kindNil:
	}
	return lua.LFalse
}

func (e *engine) errorTable(text string) *lua.LTable {
	t := e.state.CreateTable(0, 2)
	t.RawSetString("err", lua.LString(text))
	return t
}

// compiled holds the scripts of all nodes, so that a simulation of many nodes compiles each script
// once. The code is immutable: several nodes may run it at the same time. Every connection loads
// the scripts that it runs: their texts and digests are kept, too.
var compiled = struct {
	mu      sync.Mutex                    // guards the fields below
	scripts map[string]*lua.FunctionProto // by digest
	sources map[string]known              // by themselves
}{scripts: make(map[string]*lua.FunctionProto), sources: make(map[string]known)}

// known is a script that was compiled.
type known struct{ source, digest string }

// textOf returns bytes as a string, that of a known script without a copy.
func textOf(bytes []byte) string {
	compiled.mu.Lock()
	known, ok := compiled.sources[string(bytes)]
	compiled.mu.Unlock()
	if ok {
		return known.source
	}
	return string(bytes)
}

// compileScript returns the code of a script.
func compileScript(digest, source string) (*lua.FunctionProto, error) {
	compiled.mu.Lock()
	defer compiled.mu.Unlock()
	if proto, ok := compiled.scripts[digest]; ok {
		return proto, nil
	}
	chunk, err := parse.Parse(strings.NewReader(source), scriptName)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", scriptName, err)
	}
	for i := range chunk {
		convertConcat(reflect.ValueOf(&chunk[i]))
	}
	proto, err := lua.Compile(chunk, scriptName)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", scriptName, err)
	}
	proto.IsVarArg &^= lua.VarArgNeedsArg // as in Lua 5.1, no table arg is made for each run
	compiled.scripts[digest] = proto
	compiled.sources[source] = known{source, digest}
	return proto, nil
}

// concatOperand is the global function that operands of .. go through. No script can name it.
const concatOperand = "operand of .."

// convertConcat passes each operand of .. in v through concatOperand, because gopher-lua writes
// 1e15 there as 1000000000000000 and Lua 5.1 as 1e+15. A token that survives in one may be lost in
// the other.
func convertConcat(v reflect.Value) {
	switch kind := v.Kind(); {
	case kind == reflect.Interface && !v.IsNil():
		convertConcat(v.Elem())
	case kind == reflect.Pointer && !v.IsNil():
		convertConcat(v.Elem())
		if concat, ok := v.Interface().(*ast.StringConcatOpExpr); ok {
			concat.Lhs, concat.Rhs = asOperand(concat.Lhs), asOperand(concat.Rhs)
		}
	case kind == reflect.Slice:
		for i := range v.Len() {
			convertConcat(v.Index(i))
		}
	case kind == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				convertConcat(v.Field(i))
			}
		}
	}
}

func asOperand(e ast.Expr) ast.Expr {
	switch e.(type) {
	case *ast.StringExpr, *ast.StringConcatOpExpr:
		return e
	}
	function := &ast.IdentExpr{Value: concatOperand}
	call := &ast.FuncCallExpr{Func: function, Args: []ast.Expr{e}, AdjustRet: true}
	function.SetLine(e.Line())
	function.SetLastLine(e.LastLine())
	call.SetLine(e.Line())
	call.SetLastLine(e.LastLine())
	return call
}
