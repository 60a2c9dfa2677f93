package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exported returns the names at the top level of a package that begin with a word.
func exported(t *testing.T, folder, word string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	require.NoError(t, err)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					names = append(names, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if value, ok := spec.(*ast.ValueSpec); ok {
						for _, name := range value.Names {
							names = append(names, name.Name)
						}
					}
				}
			}
		}
	}
	matching := names[:0]
	for _, name := range names {
		if strings.HasPrefix(name, word) {
			matching = append(matching, name)
		}
	}
	return matching
}

func TestEveryOptionAndErrorIsDocumented(t *testing.T) {
	configuration, err := os.ReadFile(filepath.Join(root, "docs", "configuration.md"))
	require.NoError(t, err)
	compatibility, err := os.ReadFile(filepath.Join(root, "docs", "compatibility.md"))
	require.NoError(t, err)
	for _, in := range []struct {
		folder, word string
		page         []byte
		least        int
	}{
		{"redlock", "With", configuration, 19},
		{"pool", "With", configuration, 9},
		{"redlock", "Err", configuration, 8},
		{"pool", "Err", compatibility, 5},
	} {
		names := exported(t, in.folder, in.word)
		assert.GreaterOrEqual(t, len(names), in.least, "%s.%s…", in.folder, in.word)
		for _, name := range names {
			assert.Contains(t, string(in.page), "`"+name, "%s.%s", in.folder, name)
		}
	}
}
