package main

import (
	"testing"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

func TestMain(m *testing.M) {
	clitest.Main(m, newRoot, func(string, []string) int { return 1 })
}

// line runs a command line.
func line(args ...string) (status int, stdout, stderr string) {
	return clitest.Line(newRoot(), args...)
}
