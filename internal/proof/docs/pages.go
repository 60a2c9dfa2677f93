// Package docs checks the documentation: its links, and the code that it shows.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Pages returns the Markdown files of the repository at root.
func Pages(root string) (paths []string, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".github" && path != root {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			paths = append(paths, path)
		}
		return err
	})
	return paths, err
}

// Block is a fenced block of a page.
type Block struct {
	Page     string
	Line     int    // of the first line of Text, counted from 1
	Language string // what follows the fence; "" for none
	Text     string // ends with a newline, unless it is empty
}

// Blocks returns the fenced blocks of a page that begin at the start of a line.
func Blocks(page string) (blocks []Block, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	inside, line := false, 0
	for content := range strings.Lines(strings.ReplaceAll(string(text), "\r\n", "\n")) {
		line++
		fence := strings.HasPrefix(content, "```")
		switch last := len(blocks) - 1; {
		case fence && inside:
			inside = false
		case fence:
			inside = true
			language := strings.TrimSpace(strings.TrimLeft(content, "`"))
			blocks = append(blocks, Block{Page: page, Line: line + 1, Language: language})
		case inside:
			blocks[last].Text += content
		}
	}
	return blocks, nil
}

var codeSpan = regexp.MustCompile("`([^`\n]+(?:\n[^`\n]+)?)`")

// Spans returns the code within the lines of a page, outside its blocks. A span may go on in the
// next line.
func Spans(page string) (spans []string, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	prose := codeFence.ReplaceAllString(strings.ReplaceAll(string(text), "\r\n", "\n"), "")
	for _, match := range codeSpan.FindAllStringSubmatch(prose, -1) {
		spans = append(spans, strings.Join(strings.Fields(match[1]), " "))
	}
	return spans, nil
}

var (
	heading     = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// Sections returns what stands below each heading of a page, up to the next one and without its
// blocks, by the anchor that GitHub gives the heading.
func Sections(text string) map[string]string {
	text = codeFence.ReplaceAllString(text, "")
	all, found := map[string]string{}, heading.FindAllStringSubmatchIndex(text, -1)
	for i, match := range found {
		title, end := strings.ToLower(strings.TrimSpace(text[match[2]:match[3]])), len(text)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		all[strings.ReplaceAll(notInAnchor.ReplaceAllString(title, ""), " ", "-")] = strings.TrimSpace(text[match[1]:end])
	}
	return all
}

var codeFence = regexp.MustCompile("(?ms)^```.*?^```")

// ACLRule returns the words of the rule for a user in docs/operations.md, below the root of the
// repository: of app, which has a prefix, of queue, or of locks, which reaches all keys.
func ACLRule(tb testing.TB, root, user string) []string {
	tb.Helper()
	if user == "locks" { // the rule of app, with ~* in the place of its patterns
		rule := ACLRule(tb, root, "app")
		isPattern := func(word string) bool { return strings.HasPrefix(word, "~") }
		first := slices.IndexFunc(rule, isPattern)
		return slices.Insert(slices.DeleteFunc(rule, isPattern), first, "~*")
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	require.NoError(tb, err)
	_, rule, found := strings.Cut(string(text), "```\nACL SETUSER "+user+" ")
	require.True(tb, found, "the rule has gone from docs/operations.md")
	rule, _, _ = strings.Cut(rule, "```")
	return strings.Fields(rule)
}
