package fake

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// maxCompiled bounds how many compiled scripts a process keeps: more than a test suite has. Beyond
// it all are dropped and compiled again.
const maxCompiled = 1024

// compiled holds the scripts of all nodes by digest, so that a simulation of many nodes compiles
// each script once. The code is immutable: several nodes may run it at the same time.
var compiled = struct {
	mu      sync.Mutex // guards the field below
	scripts map[string]*lua.FunctionProto
}{scripts: make(map[string]*lua.FunctionProto)}

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
	if len(compiled.scripts) >= maxCompiled {
		clear(compiled.scripts)
	}
	compiled.scripts[digest] = proto
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
