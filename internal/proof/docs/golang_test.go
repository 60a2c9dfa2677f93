package docs

import (
	"go/doc/comment"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// packages are those that the pages use.
var packages = []string{
	"context", "errors", "fmt", "log/slog", "net/http", "net/url", "sync", "testing", "testing/synctest", "time",
	"github.com/redquorum/redquorum/admin",
	"github.com/redquorum/redquorum/dashboard",
	"github.com/redquorum/redquorum/election",
	"github.com/redquorum/redquorum/pool",
	"github.com/redquorum/redquorum/queue",
	"github.com/redquorum/redquorum/redlock",
	"github.com/redquorum/redquorum/redlock/redlocktest",
}

// hidden has what the code of a page takes for granted.
var hidden = map[string]string{
	"README.md": `
		var (
			ctx    context.Context
			locker *redlock.Locker
		)
		func settle(context.Context) error`,
	// The examples in docs/recipes have what this page does not show.
	"docs/recipes.md": `
		type stock struct{}
		func (*stock) left(string, int64) (int, error)
		func (*stock) set(string, int, int64) error`,
	"docs/dashboard.md": `
		var (
			ctx       context.Context
			mux       *http.ServeMux
			endpoints []string
		)
		func userOf(*http.Request) (string, bool)`,
	"docs/fencing.md": `
		var (
			ctx    context.Context
			locker *redlock.Locker
			price  int
		)
		func read(context.Context, int64) (int, error)
		func write(context.Context, int64, int) error`,
}

// The modules in contrib check their pages themselves: they have packages that this one has not.
func TestTheGoCodeOfThePagesCompiles(t *testing.T) {
	checker, err := NewChecker(root, packages...)
	require.NoError(t, err)
	checked, used := 0, map[string]bool{}
	for _, page := range pages(t) {
		name, err := filepath.Rel(root, page)
		require.NoError(t, err)
		name = filepath.ToSlash(name)
		if strings.HasPrefix(name, "contrib/") {
			continue
		}
		n, err := checker.CheckPage(page, hidden[name])
		assert.NoError(t, err)
		checked, used[name] = checked+n, n > 0
	}
	assert.GreaterOrEqual(t, checked, 8)
	for name := range hidden {
		assert.True(t, used[name], "%s shows no Go code", name)
	}
}

func TestCodeThatDoesNotCompileIsFound(t *testing.T) {
	checker, err := NewChecker(root, packages...)
	require.NoError(t, err)
	const given = "var ctx context.Context; var locker *redlock.Locker"
	for text, want := range map[string]string{
		"lock, err := locker.Lock(ctx, `a`)\nif err != nil {\n\treturn err\n}\n": "",
		"func f() *redlock.Lock { return nil }\n":                                "",
		"package main\n\nfunc main() {}\n":                                       "",
		"import red \"github.com/redquorum/redquorum/redlock\"\n\n_ = red.New\n": "",
		"import \"time\"\n\n_ = time.Second\n":                                   "",
		"\nlocker.Lack(ctx, `a`)\n":                                              "page.md:8: locker.Lack undefined",
		"locker.Lock(ctx)\n":                                                     "page.md:7: not enough arguments",
		"lock := locker.Lock(ctx, `a`)\n":                                        "page.md:7: assignment mismatch",
		"func f() *redlock.Look { return nil }\n":                                "page.md:7: undefined: redlock.Look",
		"_ = nobody\n": "page.md:7: undefined: nobody",
		"import \"example.com/none\"\n\n_ = none.New\n": "is not among the packages",
		"if {\n": "page.md:7",
	} {
		err := checker.Check(Block{Page: "page.md", Line: 7, Language: "go", Text: text}, given)
		if want == "" {
			assert.NoError(t, err, text)
		} else {
			assert.ErrorContains(t, err, want, text)
		}
	}
}

// Who looks the package up sees at once how it is used, as in README.
func TestThePackageBeginsWithTheExampleOfTheReadme(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "redlock", "redlock.go"), nil,
		parser.PackageClauseOnly|parser.ParseComments)
	require.NoError(t, err)
	content := new(comment.Parser).Parse(file.Doc.Text()).Content
	require.Greater(t, len(content), 1)
	code, ok := content[1].(*comment.Code)
	require.True(t, ok, "the second paragraph is code")

	blocks, err := Blocks(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	for _, b := range blocks {
		if b.Language == "go" {
			assert.Equal(t, b.Text, code.Text)
			return
		}
	}
	t.Error("README shows no Go code")
}
