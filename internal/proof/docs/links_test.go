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
	heading       = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	notInAnchor   = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// pages returns the Markdown files of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	paths, err := Pages(root)
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	return paths
}

// anchors returns the anchors that GitHub gives the headings of a page.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(codeFence.ReplaceAllString(text, ""), -1) {
		title := strings.ToLower(strings.TrimSpace(match[1]))
		all[strings.ReplaceAll(notInAnchor.ReplaceAllString(title, ""), " ", "-")] = true
	}
	return all
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
	if filepath.Ext(path) == ".md" && !anchors(string(text))[anchor] {
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
