package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../../.."

var (
	inlineLink    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	referenceLink = regexp.MustCompile(`(?m)^\[[^\]]+\]:\s*(\S+)`)
	imageLink     = regexp.MustCompile(`\bsrc(?:set)?="([^"]+)"`)
)

// read returns the text of a file of the repository.
func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// pages returns the Markdown files of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	paths, err := Pages(root)
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	return paths
}

// links returns the targets of the links of a page, but not those that are shown as code.
func links(text string) (targets []string) {
	text = codeSpan.ReplaceAllString(codeFence.ReplaceAllString(text, ""), "code")
	for _, pattern := range []*regexp.Regexp{inlineLink, referenceLink, imageLink} {
		for _, match := range pattern.FindAllStringSubmatch(text, -1) {
			targets = append(targets, match[1])
		}
	}
	return targets
}

// dead returns why a link from a page leads nowhere, or "". Links to other sites are not followed.
func dead(page, target string) string {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return ""
	}
	path, anchor, _ := strings.Cut(target, "#")
	if path = filepath.Join(filepath.Dir(page), path); strings.HasPrefix(target, "#") {
		path = page
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "there is no such file"
	case anchor == "" || info.IsDir():
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if _, there := Sections(string(text))[anchor]; filepath.Ext(path) == ".md" && !there {
		return "there is no such heading"
	}
	return ""
}

func TestNoLinkIsDead(t *testing.T) {
	checked := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, target := range links(string(text)) {
			assert.Empty(t, dead(page, target), "%s: %s", page, target)
			checked++
		}
	}
	assert.GreaterOrEqual(t, checked, 40, "links were found")
}

func TestDeadLinksAreFound(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	text := "# A `b`: c!\n[x](#a-b-c) [y](#d) [z](none.md) `[code](none.md)` [w](https://example.com/x)\n<img src=\"none.svg\">\n[r]: none.go\n```\n[q](q.md)\n```\n"
	require.NoError(t, os.WriteFile(page, []byte(text), 0o600))
	var found []string
	for _, target := range links(text) {
		if dead(page, target) != "" {
			found = append(found, target)
		}
	}
	assert.Equal(t, []string{"#d", "none.md", "none.go", "none.svg"}, found)
}

var atTopLevel = regexp.MustCompile(`(?m)^(?:func |var |\t)((?:With|Err)\w+)(?:[[(]|\s+=)`)

// exported returns the options and errors of a package that begin with a word.
func exported(t *testing.T, folder, word string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	require.NoError(t, err)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, match := range atTopLevel.FindAllStringSubmatch(read(t, folder, filepath.Base(path)), -1) {
			if strings.HasPrefix(match[1], word) {
				names = append(names, match[1])
			}
		}
	}
	return names
}

func TestEveryOptionAndErrorIsDocumented(t *testing.T) {
	configuration := read(t, "docs", "configuration.md")
	compatibility := read(t, "docs", "compatibility.md")
	for _, in := range []struct {
		folder, word string
		page         string
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
			assert.Contains(t, in.page, "`"+name, "%s.%s", in.folder, name)
		}
	}
}

var linked = regexp.MustCompile(`^\[[^\]]+\]\([^)\s]+\)$`)

// A reader can check what the page says of others.
func TestEveryCellOfTheComparisonHasASource(t *testing.T) {
	page := read(t, "docs", "comparison.md")
	checked := 0
	for line := range strings.Lines(page) {
		row, isTable := strings.CutPrefix(strings.TrimSpace(line), "| ")
		if !isTable || strings.HasPrefix(row, "|") || strings.HasPrefix(row, "--") {
			continue // the heads of columns have none
		}
		for _, cell := range strings.Split(strings.TrimSuffix(row, " |"), " | ")[1:] {
			assert.Regexp(t, linked, cell)
			checked++
		}
	}
	assert.Equal(t, 10*4+9*5+12*3, checked)
}

// ratio matches a median with the lowest and the highest of its rounds.
var ratio = regexp.MustCompile(`\d+\.\d\d \(\d+\.\d\d–\d+\.\d\d\)`)

// make versus writes docs/benchmarks.md, and README quotes it.
func TestTheFiguresOfTheReadmeAreMeasured(t *testing.T) {
	readme := read(t, "README.md")
	benchmarks := read(t, "docs", "benchmarks.md")
	measured := map[string]bool{}
	for _, figure := range ratio.FindAllString(benchmarks, -1) {
		measured[figure] = true
	}
	quoted := ratio.FindAllString(readme, -1)
	assert.GreaterOrEqual(t, len(quoted), 2)
	for _, figure := range quoted {
		assert.True(t, measured[figure], "%s is not in docs/benchmarks.md: quote the present figures", figure)
	}
}

var recipe = regexp.MustCompile(`(?s)\n//recipe:begin\n\n(.*?)\n//recipe:end\n`)

// The programs of the recipes run as examples, so what the page shows of them is what works.
func TestTheRecipesAreThoseOfTheExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "recipes", "*_test.go"))
	require.NoError(t, err)
	tested := map[string]string{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		text := strings.ReplaceAll(string(content), "\r\n", "\n")
		regions := recipe.FindAllStringSubmatch(text, -1)
		assert.Len(t, regions, strings.Count(text, "//recipe:begin\n"), file)
		assert.Equal(t, len(regions), strings.Count(text, "\nfunc Example_"), "%s: an example for each recipe", file)
		assert.Equal(t, strings.Count(text, "\nfunc Example_"), strings.Count(text, "\t// Output:\n"), file)
		for _, match := range regions {
			tested[match[1]] = file
		}
	}
	blocks, err := Blocks(filepath.Join(root, "docs", "recipes.md"))
	require.NoError(t, err)
	shown := map[string]bool{}
	for _, b := range blocks {
		if b.Language == "go" {
			shown[b.Text] = true
			assert.Contains(t, tested, b.Text, "%s:%d is not in docs/recipes", b.Page, b.Line)
		}
	}
	for text, file := range tested {
		assert.Contains(t, shown, text, "a recipe of %s is not in the page", file)
	}
	assert.GreaterOrEqual(t, len(shown), 8)
}
