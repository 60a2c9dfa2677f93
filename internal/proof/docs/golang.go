package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Checker tells whether Go code in a page compiles. It uses the type checker of the standard
// library and what the go command has built.
type Checker struct {
	compiled map[string]string // the file with the export data of each package, by its path
	named    map[string]string // the name of each package, by its path
	implied  map[string]string // the path of each package that a block need not import, by its name
}

// NewChecker returns a Checker for code that may use these packages, and those that they need, as
// seen from a folder. A block need not import them. A package is its path, or "name=path" for code
// that gives it a name of its own.
func NewChecker(folder string, packages ...string) (*Checker, error) {
	c := &Checker{compiled: map[string]string{}, named: map[string]string{}, implied: map[string]string{}}
	arguments := []string{"list", "-deps", "-export", "-json=ImportPath,Name,Export"}
	for _, p := range packages {
		_, path, renamed := strings.Cut(p, "=")
		if !renamed {
			path = p
		}
		arguments = append(arguments, path)
	}
	list := exec.Command("go", arguments...)
	list.Dir = folder
	var failure bytes.Buffer
	list.Stderr = &failure
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", list.Args, err, failure.Bytes())
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Name, Export string }
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		c.compiled[p.ImportPath], c.named[p.ImportPath] = p.Export, p.Name
	}
	for _, p := range packages {
		if name, path, renamed := strings.Cut(p, "="); renamed {
			c.implied[name] = path
		} else {
			c.implied[c.named[p]] = p
		}
	}
	return c, nil
}

// RequireReadme requires that the README.md beside a test has so many blocks of Go code, or more,
// and that each is formatted and compiles with what it does not show, redlock and these packages. A
// package is what [NewChecker] takes.
func RequireReadme(tb testing.TB, blocks int, hidden string, packages ...string) {
	tb.Helper()
	checker, err := NewChecker(".", append(packages, "github.com/redquorum/redquorum/redlock")...)
	require.NoError(tb, err)
	checked, err := checker.CheckPage("README.md", hidden)
	require.NoError(tb, err)
	require.GreaterOrEqual(tb, checked, blocks, "blocks of code")
}

// CheckPage checks the blocks of Go code of a page: each is formatted, and compiles with what the
// page does not show. It returns how many there are.
func (c *Checker) CheckPage(page, hidden string) (checked int, err error) {
	blocks, err := Blocks(page)
	if err != nil {
		return 0, err
	}
	var all []error
	for _, b := range blocks {
		if b.Language != "go" {
			continue
		}
		checked++
		_, code := splitImports(b.Text)
		if err := c.Check(b, hidden); err != nil {
			all = append(all, err)
		} else if formatted, err := format.Source([]byte(code)); err != nil {
			all = append(all, fmt.Errorf("%s:%d: %w", b.Page, b.Line, err))
		} else if string(formatted) != code {
			all = append(all, fmt.Errorf("%s:%d: gofmt writes it in another way", b.Page, b.Line))
		}
	}
	return checked, errors.Join(all...)
}

// Check compiles a block together with declarations that its page does not show. The block is a
// file, declarations, or statements of a function that returns an error. Variables and imports that
// it does not use are no errors: a page shows part of a program.
func (c *Checker) Check(b Block, hidden string) error {
	set := token.NewFileSet()
	shown, err := c.parse(set, b)
	if err != nil {
		return err
	}
	beside, err := c.parseFile(set, "hidden.go", "package p\n"+c.imports("")+hidden)
	if err != nil {
		return err
	}
	if shown.Name.Name != "p" { // a whole file
		beside.Name.Name = shown.Name.Name
	}
	var all []error
	config := types.Config{
		Importer: importer.ForCompiler(set, "gc", c.open),
		Error: func(err error) {
			var e types.Error
			if !errors.As(err, &e) || !e.Soft {
				all = append(all, err)
			}
		},
	}
	if _, err := config.Check("p", set, []*ast.File{shown, beside}, nil); err != nil {
		return errors.Join(all...)
	}
	return nil
}

// parse finds out what a block is.
func (c *Checker) parse(set *token.FileSet, b Block) (*ast.File, error) {
	place := fmt.Sprintf("//line %s:%d\n", b.Page, b.Line)
	if strings.HasPrefix(b.Text, "package ") {
		return c.parseFile(set, b.Page, place+b.Text)
	}
	own, rest := splitImports(b.Text)
	head := "package p\n" + own + c.imports(own)
	file, err := c.parseFile(set, b.Page, head+place+rest)
	if err == nil {
		return file, nil
	}
	return c.parseFile(set, b.Page, head+"func _() error {\n"+place+rest+"\npanic(0)\n}\n")
}

// parseFile parses a file.
func (*Checker) parseFile(set *token.FileSet, name, text string) (*ast.File, error) {
	return parser.ParseFile(set, name, text, parser.SkipObjectResolution)
}

var importLine = regexp.MustCompile(`(?m)^import (?:(\w+) )?"([^"]+)"$`)

// splitImports returns the import lines of a block, and the block with empty lines in their place.
func splitImports(text string) (own, rest string) {
	for line := range strings.Lines(text) {
		if importLine.MatchString(strings.TrimSuffix(line, "\n")) {
			own += line
			line = "\n"
		}
		rest += line
	}
	return own, rest
}

// imports returns the import declarations for what a block need not import, beside its own.
func (c *Checker) imports(own string) string {
	taken := map[string]bool{}
	for _, match := range importLine.FindAllStringSubmatch(own, -1) {
		name := match[1]
		if name == "" {
			name = c.named[match[2]]
		}
		taken[name] = true
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.implied)) {
		if !taken[name] {
			fmt.Fprintf(&text, "import %s %q\n", name, c.implied[name])
		}
	}
	return text.String()
}

// open opens the export data of a package.
func (c *Checker) open(importPath string) (io.ReadCloser, error) {
	file := c.compiled[importPath]
	if file == "" {
		return nil, fmt.Errorf("%s is not among the packages of the Checker", importPath)
	}
	return os.Open(file)
}
