package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	claimRow  = regexp.MustCompile(`(?m)^\| (S\d+) \|.*\|$`)
	claimed   = regexp.MustCompile(`\bS\d+\b`)
	citedTest = regexp.MustCompile("`((?:Test|Fuzz|Example)\\w*)`")
	citedWhat = regexp.MustCompile("`([^`]+)`")
)

// claim is a row of the table in docs/safety.md.
type claim struct {
	name, text, why, where, tests string
}

// claims returns the rows of the table, and what is wrong with their form.
func claims(text string) (all []claim, wrong []string) {
	for _, match := range claimRow.FindAllStringSubmatch(text, -1) {
		cells := strings.Split(strings.Trim(match[0], "|"), "|")
		if len(cells) != 5 {
			wrong = append(wrong, fmt.Sprintf("%s has %d cells", match[1], len(cells)))
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		all = append(all, claim{cells[0], cells[1], cells[2], cells[3], cells[4]})
		if want := fmt.Sprint("S", len(all)); match[1] != want {
			wrong = append(wrong, fmt.Sprintf("%s stands where %s should", match[1], want))
		}
	}
	return all, wrong
}

// unfounded returns what a claim lacks. Tests has the tests of the repository and the folders with
// tests, which may be cited, too.
func (c claim) unfounded(tests map[string]bool) (wrong []string) {
	if c.text == "" || c.why == "" {
		wrong = append(wrong, c.name+" has no argument")
	}
	if !slices.ContainsFunc(links(c.where), func(target string) bool {
		return !strings.HasSuffix(target, "_test.go") && dead(filepath.Join(root, "docs", "safety.md"), target) == ""
	}) {
		wrong = append(wrong, c.name+" has no place in the code")
	}
	cited := 0
	for _, match := range citedWhat.FindAllStringSubmatch(c.tests, -1) {
		if !tests[match[1]] {
			wrong = append(wrong, fmt.Sprintf("%s cites %s, which is no test here", c.name, match[1]))
		}
		cited++
	}
	if cited == 0 {
		wrong = append(wrong, c.name+" cites no test")
	}
	return wrong
}

// allTests returns the names of the tests, fuzz tests and examples of the repository, and of the
// folders that have them.
func allTests(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && citedTest.MatchString("`"+f.Name.Name+"`") {
				tests[f.Name.Name], tests[filepath.ToSlash(folder)] = true, true
			}
		}
		return err
	})
	require.NoError(t, err)
	return tests
}

func TestEveryClaimHasAnArgumentAPlaceAndATest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "safety.md"))
	require.NoError(t, err)
	tests := allTests(t)
	all, wrong := claims(string(text))
	assert.Empty(t, wrong)
	assert.GreaterOrEqual(t, len(all), 37)
	for _, c := range all {
		assert.Empty(t, c.unfounded(tests))
	}
	for _, match := range citedTest.FindAllStringSubmatch(string(text), -1) {
		assert.True(t, tests[match[1]], "docs/safety.md cites %s", match[1])
	}
	for _, name := range claimed.FindAllString(string(text), -1) {
		assert.True(t, slices.ContainsFunc(all, func(c claim) bool { return c.name == name }), "docs/safety.md refers to %s", name)
	}
}

// Code and other pages that cite a claim cite one that exists.
func TestCitedClaimsExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "safety.md"))
	require.NoError(t, err)
	all, _ := claims(string(text))
	cited := 0
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".go", ".lua", ".md"}, filepath.Ext(path)) {
			return err
		}
		content, err := os.ReadFile(path)
		for line := range strings.Lines(string(content)) {
			if !strings.Contains(line, "safety.md") || strings.HasSuffix(path, "safety_test.go") {
				continue
			}
			for _, name := range claimed.FindAllString(line, -1) {
				assert.True(t, slices.ContainsFunc(all, func(c claim) bool { return c.name == name }), "%s cites %s", path, name)
				cited++
			}
		}
		return err
	})
	require.NoError(t, err)
	assert.GreaterOrEqual(t, cited, 5, "citations were found")
}

func TestUnfoundedClaimsAreFound(t *testing.T) {
	text := "| S1 | a | b | [c](../doc.go) | `TestHere`, `internal/here` |\n" +
		"| S2 | a | b | [c](../doc.go) | `TestGone` |\n" +
		"| S4 | a | b | c | by thought |\n" +
		"| S4 | a |  | [c](../none.go) | `FuzzHere`, `internal/gone` |\n" +
		"| S5 | a | b | [c](docs_test.go) |\n"
	tests := map[string]bool{"TestHere": true, "internal/here": true, "FuzzHere": true}
	all, found := claims(text)
	for _, c := range all {
		found = append(found, c.unfounded(tests)...)
	}
	assert.Equal(t, []string{
		"S4 stands where S3 should", "S5 has 4 cells",
		"S2 cites TestGone, which is no test here",
		"S4 has no place in the code", "S4 cites no test",
		"S4 has no argument", "S4 has no place in the code", "S4 cites internal/gone, which is no test here",
	}, found)
}
