// Command columns fails when a comment, or a line of prose in Markdown, is wider than 100 columns.
// It prints the place of each. A tab counts as 4 columns.
//
//	go run ./internal/proof/columns [folder]
//
// Code has no limit, so a comment behind code is reported only when the comment itself passes
// column 100. Tables and code blocks are excepted, and so are links that do not fit into a line and
// directives for tools, as //go:build and //nolint are.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	found, err := walk(root)
	for _, f := range found {
		fmt.Printf("%s:%d: %d columns, %d at most\n", f.path, f.line, f.width, limit)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "columns:", err)
	}
	if err != nil || len(found) > 0 {
		os.Exit(1)
	}
}

// A finding is a line that is too wide.
type finding struct {
	path string
	wide
}

// walk checks every file below a folder, in the order of their paths.
func walk(root string) (found []finding, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := entry.Name(); {
		case entry.IsDir() && (name == ".git" || name == ".servers" || name == "testdata"):
			return fs.SkipDir
		case !entry.Type().IsRegular() || name == "LICENSE" || name == "go.sum":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, w := range tooWide(path, text) {
			found = append(found, finding{path, w})
		}
		return nil
	})
	return found, err
}
