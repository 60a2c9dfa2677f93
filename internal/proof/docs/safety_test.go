package docs

import (
	"cmp"
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

// ways are how a claim is proved: the columns of the map in internal/proof/README.md behind the
// name of the claim.
var ways = []string{"searched", "in histories", "by itself", "on real servers", "seeded bugs"}

// claim is a row of docs/safety.md, with its rows of internal/proof/claims.md and of the map.
type claim struct {
	name, text, why, where string
	proofs                 []string // a cell for each of the ways
}

// rows returns the cells of the rows of tables whose first cell is a claim, by their numbers, and
// what is wrong with their form.
func rows(text string, cells int) (all [][]string, wrong []string) {
	for _, match := range claimRow.FindAllStringSubmatch(text, -1) {
		row := strings.Split(strings.Trim(match[0], "|"), "|")
		if len(row) != cells {
			wrong = append(wrong, fmt.Sprintf("%s has %d cells", match[1], len(row)))
			continue
		}
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		all = append(all, row)
	}
	slices.SortStableFunc(all, func(a, b []string) int {
		return cmp.Or(cmp.Compare(len(a[0]), len(b[0])), cmp.Compare(a[0], b[0]))
	})
	for i, row := range all {
		if want := fmt.Sprint("S", i+1); row[0] != want {
			wrong = append(wrong, fmt.Sprintf("%s stands where %s should", row[0], want))
		}
	}
	return all, wrong
}

// claims returns the claims of docs/safety.md with their arguments and what the map says of them.
func claims(safety, arguments, proofs string) (all []claim, wrong []string) {
	said, wrong := rows(safety, 2)
	for _, row := range said {
		all = append(all, claim{name: row[0], text: row[1]})
	}
	argued, bad := rows(arguments, 3)
	wrong = append(wrong, bad...)
	mapped, bad := rows(proofs, 1+len(ways))
	wrong = append(wrong, bad...)
	for i := range all {
		if i < len(argued) {
			all[i].why, all[i].where = argued[i][1], argued[i][2]
		}
		if i < len(mapped) {
			all[i].proofs = mapped[i][1:]
		}
	}
	return all, wrong
}

// unfounded returns what a claim lacks. Tests has the way of each test of the repository and of
// each folder with tests; bugs has the seeded bugs of each claim.
func (c claim) unfounded(tests map[string]string, bugs map[string][]string) (wrong []string) {
	if c.text == "" || c.why == "" {
		wrong = append(wrong, c.name+" has no argument")
	}
	if !slices.ContainsFunc(links(c.where), func(target string) bool {
		return !strings.HasSuffix(target, "_test.go") && dead(filepath.Join(root, "internal", "proof", "claims.md"), target) == ""
	}) {
		wrong = append(wrong, c.name+" has no place in the code")
	}
	if c.proofs == nil {
		return append(wrong, c.name+" is not in the map")
	}
	cited, last := 0, len(ways)-1
	for i, cell := range c.proofs[:last] {
		for _, match := range citedWhat.FindAllStringSubmatch(cell, -1) {
			if way, ok := tests[match[1]]; !ok {
				wrong = append(wrong, fmt.Sprintf("%s cites %s, which is no test here", c.name, match[1]))
			} else if way != ways[i] {
				wrong = append(wrong, fmt.Sprintf("%s has %s under %q, it belongs under %q", c.name, match[1], ways[i], way))
			}
			cited++
		}
	}
	if cited == 0 {
		wrong = append(wrong, c.name+" cites no test")
	}
	if want := strings.Join(bugs[c.name], ", "); c.proofs[last] != want {
		wrong = append(wrong, fmt.Sprintf("%s has the seeded bugs %q", c.name, want))
	}
	return wrong
}

// wayOf returns how the tests of a file prove what they show.
func wayOf(path, folder string) string {
	switch {
	case strings.HasPrefix(folder, "internal/proof/search"), strings.HasSuffix(folder, "/search"):
		return ways[0]
	case strings.HasPrefix(folder, "internal/proof/history"), folder == "internal/proof/servers/chaos",
		folder == "redlock/internal/simulation", folder == "internal/proof/driver":
		return ways[1]
	case strings.HasPrefix(folder, "internal/proof/servers/"), folder == "internal/proof/interop",
		startsServers(path), startsServers(filepath.Join(filepath.Dir(path), "harness_test.go")):
		return ways[3]
	}
	return ways[2]
}

// startsServers reports whether a file uses real servers.
func startsServers(path string) bool {
	text, err := os.ReadFile(path)
	return err == nil && strings.Contains(string(text), "/internal/proof/servers/")
}

// allTests returns the way of each test, fuzz test and example of the repository, and of each
// folder that has some.
func allTests(t *testing.T) map[string]string {
	t.Helper()
	tests := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		folder = filepath.ToSlash(folder)
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && citedTest.MatchString("`"+f.Name.Name+"`") {
				way := wayOf(path, folder)
				tests[f.Name.Name], tests[folder] = way, way
			}
		}
		return err
	})
	require.NoError(t, err)
	return tests
}

var bugHeader = regexp.MustCompile(`\nclaim: (\S+)\n`)

// seededBugs returns the names of the bugs of each claim.
func seededBugs(t *testing.T) map[string][]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "internal", "proof", "bugs", "patches", "*.patch"))
	require.NoError(t, err)
	bugs := map[string][]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		name := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(path), ".patch"), "-", " ")
		if match := bugHeader.FindStringSubmatch(string(text)); match != nil {
			bugs[match[1]] = append(bugs[match[1]], name)
		}
	}
	return bugs
}

func TestEveryClaimHasAnArgumentAPlaceAndAProof(t *testing.T) {
	safety, proofs := read(t, "docs", "safety.md"), read(t, "internal", "proof", "README.md")
	arguments := read(t, "internal", "proof", "claims.md")
	tests, bugs := allTests(t), seededBugs(t)
	all, wrong := claims(safety, arguments, proofs)
	assert.Empty(t, wrong)
	assert.GreaterOrEqual(t, len(all), 37)
	for _, c := range all {
		assert.Empty(t, c.unfounded(tests, bugs))
	}
	for _, text := range []string{safety, arguments, proofs} {
		for _, match := range citedTest.FindAllStringSubmatch(text, -1) {
			assert.Contains(t, tests, match[1], "it is cited")
		}
		for _, name := range claimed.FindAllString(text, -1) {
			assert.True(t, slices.ContainsFunc(all, func(c claim) bool { return c.name == name }), "%s is cited", name)
		}
	}
}

// Code and other pages that cite a claim cite one that exists.
func TestCitedClaimsExist(t *testing.T) {
	all, _ := claims(read(t, "docs", "safety.md"), "", "")
	cited := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
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
	safety := "| S2 | a |\n\n| S1 | a |\n| S4 | a |\n| S4 | a |\n| S5 | a | b |\n| S5 | a |\n"
	arguments := "| S1 | b | [c](../../doc.go) |\n| S2 | b | [c](../../doc.go) |\n| S3 | b | c |\n| S4 |  | [c](none.go) |\n" +
		"| S5 | b | [c](../../doc.go) |\n"
	proofs := "| S1 |  |  | `TestHere` | `internal/here` | a bug |\n| S2 |  |  | `TestGone` |  | |\n| S3 |  |  | by thought |  | |\n" +
		"| S4 | `TestHere` |  |  | |  |\n"
	tests := map[string]string{"TestHere": "by itself", "internal/here": "on real servers"}
	all, found := claims(safety, arguments, proofs)
	for _, c := range all {
		found = append(found, c.unfounded(tests, map[string][]string{"S1": {"a bug"}, "S2": {"another"}})...)
	}
	assert.Equal(t, []string{
		"S5 has 3 cells", "S4 stands where S3 should",
		"S2 cites TestGone, which is no test here", `S2 has the seeded bugs "another"`,
		"S4 has no place in the code", "S4 cites no test",
		"S4 has no argument", "S4 has no place in the code", `S4 has TestHere under "searched", it belongs under "by itself"`,
		"S5 is not in the map",
	}, found)
}
