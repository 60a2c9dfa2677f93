package main

import (
	"regexp"
	"strings"
)

// verdict is what a step says of a bug.
type verdict string

const (
	caught   verdict = "caught"
	survived verdict = "SURVIVED"
	absent   verdict = "DID NOT RUN"
	unbuilt  verdict = "DOES NOT BUILD"
	hung     verdict = "HANGS" // until the test binary gives up
	crashed  verdict = "CRASHES"
)

// crash begins a line of a test binary that did not end by itself. What a failed assertion prints
// is indented.
var crash = regexp.MustCompile(`(?m)^(panic: |fatal error: |unexpected fault address|SIG[A-Z]+: )`)

// judge reads the output of a step. Only an assertion catches a bug: a build that fails says
// nothing about the tests, and of a hang or a crash nobody learns what is wrong.
func judge(output, test string) verdict {
	switch {
	case strings.Contains(output, "[build failed]") || strings.Contains(output, "[setup failed]"):
		return unbuilt
	case strings.Contains(output, "\npanic: test timed out"):
		return hung
	case crash.MatchString(output):
		return crashed
	case strings.Contains(output, "\n--- FAIL: "+test+" ("):
		return caught
	case strings.Contains(output, "\n--- PASS: "+test+" ("):
		return survived
	default:
		return absent
	}
}
