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
