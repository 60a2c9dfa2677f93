//go:build unix

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof"
)

// result is what became of a step.
type result struct {
	step  step
	lines []proof.Line
	took  time.Duration
	err   error
}

// run runs a step, and reads what it found. A step that found nothing to look at has failed.
func (s step) run(ctx context.Context) result {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	began := clock.System().Now()
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, s.command[0], s.command[1:]...)
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Stdout, cmd.Stderr = &output, &output
	// Its processes end with it: first asked, so that tests stop the servers that they started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	err := cmd.Run()
	r := result{step: s, lines: read(output.String()), took: clock.System().Now().Sub(began)}
	var violations int64
	for _, line := range r.lines {
		violations += line.Violations
	}
	switch {
	case err != nil:
		r.err = fmt.Errorf("%w\n%s", err, proof.Tail(output.String()))
	case len(r.lines) == 0:
		r.err = fmt.Errorf("it ran nothing\n%s", proof.Tail(output.String()))
	case violations > 0:
		r.err = fmt.Errorf("%d violations\n%s", violations, proof.Tail(output.String()))
	}
	return r
}

// read finds the lines of a step. Tests that print none are counted instead.
func read(output string) (lines []proof.Line) {
	for text := range strings.Lines(output) {
		if line, ok := proof.Parse(text); ok {
			lines = append(lines, line)
		}
	}
	if passed, failed := count(output, "PASS"), count(output, "FAIL"); len(lines) == 0 && passed+failed > 0 {
		lines = []proof.Line{{Size: fmt.Sprint(passed+failed, " tests"), Violations: int64(failed)}}
	}
	return lines
}

// count counts the tests, not their parts.
func count(output, verdict string) int {
	return len(regexp.MustCompile(`(?m)^--- `+verdict+`: Test`).FindAllString(output, -1))
}

func (r *result) progress() string {
	verdict := "no violation"
	if r.err != nil {
		verdict = "FAILED"
	}
	return fmt.Sprintf("%s: %s (%.0fs)", r.step.name, verdict, r.took.Seconds())
}

// printTable prints one row for each line of each step. The time of a step is in its first row.
func printTable(to io.Writer, results []result, took time.Duration) error {
	rows := [][]string{{"step", "size", "faults", "violations", "time"}}
	for _, r := range results {
		seconds := fmt.Sprintf("%.0fs", r.took.Seconds())
		if len(r.lines) == 0 {
			rows = append(rows, []string{r.step.name, "FAILED", "", "", seconds})
		}
		for _, line := range r.lines {
			faults := fmt.Sprint(line.Faults)
			if line.Faults == 0 {
				faults = "–"
			}
			rows = append(rows, []string{cmp.Or(line.Step, r.step.name), line.Size, faults, fmt.Sprint(line.Violations), seconds})
			seconds = ""
		}
	}
	err := proof.PrintTable(to, append(rows, []string{"all", "", "", "", fmt.Sprintf("%.0fs", took.Seconds())}))
	return errors.Join(err, printReached(to, results))
}

// printReached prints how often each rare state was reached. A step fails that reaches one never.
func printReached(to io.Writer, results []result) error {
	var rows [][]string
	for _, r := range results {
		for _, line := range r.lines {
			for _, state := range slices.Sorted(maps.Keys(line.Reached)) {
				rows = append(rows, []string{state, fmt.Sprint(line.Reached[state])})
			}
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return proof.PrintTable(to, append([][]string{{"rare state", "reached"}}, rows...))
}
