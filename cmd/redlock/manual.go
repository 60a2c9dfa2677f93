//go:build manual

package main

import (
	"fmt"
	"os"

	"github.com/redquorum/redquorum/cmd/redlock/internal/manual"
)

// main writes the manual pages of all commands into a folder:
//
//	go run -tags manual ./cmd/redlock FOLDER
func main() {
	if len(os.Args) != 2 {
		fmt.Fprintf(os.Stderr, "manual: want one folder, got %q\n", os.Args[1:])
		os.Exit(1)
	}
	if err := manual.Write(newRoot(), version(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}
