package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// words returns prose of so many columns.
func words(width int) string { return strings.Repeat("word ", width)[:width-1] + "." }

func TestProseIsAtMostAHundredColumnsWide(t *testing.T) {
	link := "https://example.com/" + strings.Repeat("a", limit)
	code := strings.Repeat("x", limit)
	for _, c := range []struct {
		name, path, text string
		want             []int // lines
	}{
		{"a comment that fits", "a.go", "// " + words(97), nil},
		{"a comment that does not", "a.go", "package a\n\n// " + words(98), []int{3}},
		{"a tab counts as four", "a.go", "\t// " + words(94) + "\n\t// " + words(93), []int{1}},
		{"a letter counts as one", "a.go", "// " + strings.Repeat("é ", 48), nil},
		{"code has no limit", "a.go", "var a = `" + words(100) + "`", nil},
		{"a string is not a comment", "a.go", "var a = \"// " + words(100) + "\"", nil},
		{"a comment behind code", "a.go", "var a int // " + words(88), []int{1}},
		{"a comment that ends before the code does", "a.go", "f( /* short */ `" + code + "`)", nil},
		{"a block of comments", "a.go", "/* short\n" + words(101) + "\n*/", []int{2}},
		{"code in a doc comment", "a.go", "//\t" + words(100), nil},
		{"a directive", "a.go", "var a int //nolint:unused // " + words(100), nil},
		{"prose", "a.md", words(100) + "\n" + words(101), []int{2}},
		{"a table", "a.md", "| " + words(100), nil},
		{"a fence", "a.md", "```go\n" + words(101) + "\n```\n" + words(101), []int{4}},
		{"a fence in a list", "a.md", "- a\n  ~~~\n" + words(101) + "\n```\n  ~~~\n" + words(101), []int{6}},
		{"a link of its own", "a.md", "- " + link + "\n[a]: " + link + "\n[a](" + link + ").", nil},
		{"a link among words", "a.md", "see also " + link, []int{1}},
		{"a link in a comment", "a.go", "// See " + link, nil},
		{"Lua", "a.lua", "-- " + words(98) + "\nlocal a = 1 -- " + words(90) + "\nf('" + code + "')", []int{1, 2}},
		{"YAML, with an apostrophe", "a.yml", "a: it's # " + words(98) + "\nb: " + code, []int{1}},
		{"a Makefile", "Makefile", "a: ## " + words(98) + "\n\t@f '# " + words(98) + "'", []int{1}},
		{"bash", "run", "#!/usr/bin/env bash\n# " + words(99) + "\nf \"${#" + code + "}\"", []int{2}},
		{"a module", "go.mod", "// " + words(98), []int{1}},
		{"anything else", "a.txt", words(200), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []int
			for _, w := range tooWide(c.path, []byte(c.text)) {
				got = append(got, w.line)
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func TestEveryFileIsCheckedButThoseOfOthers(t *testing.T) {
	root := t.TempDir()
	for _, path := range []string{".ci/run", "a/b/c.go", ".git/d.go", ".servers/d.go", "a/testdata/d.go", "LICENSE"} {
		path = filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n# "+words(99)+"\n// "+words(98)), 0o600))
	}
	found, err := walk(root)
	require.NoError(t, err)
	assert.Equal(t, []finding{
		{filepath.Join(root, ".ci/run"), wide{2, 101}},
		{filepath.Join(root, "a/b/c.go"), wide{3, 101}},
	}, found)

	_, err = walk(filepath.Join(root, "missing"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}
