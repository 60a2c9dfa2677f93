package driver_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// uncalled is what the driver does not call of what the packages offer, and why.
var uncalled = map[string]string{
	"redlock.WithMemberCredentials": credentials, "pool.WithMemberCredentials": credentials, "pool.WithCredentials": credentials,
	"pool.WithTLSConfig": secrecy, "pool.WithTLSFiles": secrecy,
	"pool.WithClientName": handshake, "pool.WithDialTimeout": handshake, "pool.WithStallTimeout": handshake,
	"fence.RWGate.Restore": "TestRestoredRWGateRefusesWhatTheOldOneWould does",
}

const (
	credentials = "fake masters have no users: package admin looks at what goes to which host, and scenarios at real ones"
	secrecy     = "fake masters have no TLS: package pipeline connects to certificates that end, and scenarios to real servers"
	handshake   = "a history tells nothing of it: package pipeline looks at what is sent, and when a connection is given up"
)

// TestAllThatIsOfferedIsCalled has the driver call, somewhere, each function, option and method of
// the packages, and set each hook. Of methods, only the name is compared.
func TestAllThatIsOfferedIsCalled(t *testing.T) {
	called, left := make(map[string]bool), maps.Clone(uncalled)
	paths, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, file := range parsed(t, paths) {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				called["."+n.Sel.Name] = true
				if of, ok := n.X.(*ast.Ident); ok {
					called[of.Name+"."+n.Sel.Name] = true
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok {
					called["Hooks."+key.Name] = true
				}
			}
			return true
		})
	}
	for _, pkg := range []string{"redlock", "admin", "election", "fence", "queue", "pool"} {
		for name, as := range offered(t, pkg) {
			why, excused := uncalled[name]
			assert.NotEqual(t, excused, called[as], "%s: called %t, and it is said that it is not: %q", name, called[as], why)
			delete(left, name)
		}
	}
	assert.Empty(t, left, "which nothing offers")
}

func parsed(t *testing.T, paths []string) (files []*ast.File) {
	t.Helper()
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
	}
	return files
}

// offered returns what a package offers, and how it shows in the source of whoever calls it.
func offered(t *testing.T, pkg string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	paths, err := filepath.Glob(filepath.Join("..", "..", "..", pkg, "*.go"))
	require.NoError(t, err)
	paths = slices.DeleteFunc(paths, func(path string) bool { return strings.HasSuffix(path, "_test.go") })
	for _, file := range parsed(t, paths) {
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				offers(all, pkg, decl)
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if hooks, ok := spec.(*ast.TypeSpec); ok && hooks.Name.Name == "Hooks" {
						for _, field := range hooks.Type.(*ast.StructType).Fields.List {
							all[pkg+".Hooks."+field.Names[0].Name] = "Hooks." + field.Names[0].Name
						}
					}
				}
			}
		}
	}
	return all
}

// offers adds a function or a method, if both it and its type are exported.
func offers(all map[string]string, pkg string, decl *ast.FuncDecl) {
	name := decl.Name.Name
	switch {
	case !ast.IsExported(name) || name == "Error" || name == "Unwrap" || name == "String":
	case decl.Recv == nil:
		all[pkg+"."+name] = pkg + "." + name
	default:
		of := strings.TrimLeft(fmt.Sprint(typeName(decl.Recv.List[0].Type)), "*")
		if ast.IsExported(of) {
			all[pkg+"."+of+"."+name] = "." + name
		}
	}
}

func typeName(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		return typeName(star.X)
	}
	name, _ := e.(*ast.Ident)
	return name.Name
}
