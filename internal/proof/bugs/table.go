package main

import (
	"fmt"
	"strings"
)

// markdown returns the table of internal/proof/README.md.
func markdown(bugs []bug) string {
	var to strings.Builder
	to.WriteString("| bug | what it does | claim | caught by |\n| --- | --- | --- | --- |\n")
	for _, b := range bugs {
		fmt.Fprintf(&to, "| %s | %s | %s | `%s` |\n", b.words(), b.breaks, b.claim, b.step.test)
	}
	return to.String()
}
