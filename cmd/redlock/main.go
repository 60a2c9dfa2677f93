//go:build !manual

// Command redlock works with failover-safe locks over independent Redis masters, from a shell. See
// `redlock help`.
package main

import (
	"os"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
)

func main() {
	os.Exit(cli.Execute(newRoot(os.Args[1:]...), os.Args[1:], os.Stdout, os.Stderr))
}
