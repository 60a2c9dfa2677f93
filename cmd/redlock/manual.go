//go:build manual

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"
)

// main writes the manual pages of all commands into a folder:
//
//	go run -tags manual ./cmd/redlock FOLDER
//
// They have the date of SOURCE_DATE_EPOCH, or today's. What makes them is in no command that is
// released.
func main() {
	if err := writeManual(); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

func writeManual() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("want one folder, got %q", os.Args[1:])
	}
	if err := os.MkdirAll(os.Args[1], 0o755); err != nil {
		return err
	}
	root := newRoot()
	root.DisableAutoGenTag = true
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: version(), Manual: "redlock"}, os.Args[1])
}
