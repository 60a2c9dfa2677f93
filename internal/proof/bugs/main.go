// Command bugs puts known bugs into a copy of the library, one at a time, and fails if a bug is
// not noticed by the test that must notice it.
//
//	go run ./internal/proof/bugs [-run pattern] [-table] [-driver histories]
//
// Each bug is a patch in internal/proof/bugs/patches, which says what it breaks, which claim of
// docs/safety.md, and by which step it must be caught: one test, which passes without the bug and
// must fail with it by an assertion. It is run from the root of the module, on Linux, and needs git
// and redis-server. With -driver, that many histories of the driver of the public API look for each
// bug instead of its step.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof"
)

// timeout bounds a step. The slowest takes a few seconds, also on a busy machine.
const timeout = time.Minute

// driving bounds a series of histories of the driver.
const driving = 20 * time.Minute

// driver is the driver of the public API.
var driver = step{"./internal/proof/driver", "TestHistories"}

// bugsDir is where the bugs are, from the root of the module.
var bugsDir = filepath.Join("internal", "proof", "bugs", "patches")

func main() {
	pattern := flag.String("run", "", "only bugs whose name matches this regular expression")
	table := flag.Bool("table", false, "print what each bug does and what catches it, and run nothing")
	histories := flag.Int("driver", 0, "have so many histories of the driver look for each bug instead of its step")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := seed(ctx, ".", *pattern, *table, *histories); err != nil {
		fmt.Fprintln(os.Stderr, "seeded:", err)
		stop()
		os.Exit(1)
	}
}

// seed does what the command does, for the module at root.
func seed(ctx context.Context, root, pattern string, table bool, histories int) error {
	bugs, err := readBugs(filepath.Join(root, bugsDir))
	if err != nil {
		return err
	}
	if table {
		fmt.Print(markdown(bugs))
		return nil
	}
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	bugs = slices.DeleteFunc(bugs, func(b bug) bool { return !matches.MatchString(b.name) && !matches.MatchString(b.words()) })
	if len(bugs) == 0 {
		return fmt.Errorf("no bug matches %q", pattern)
	}
	m := module{timeout: timeout}
	if histories > 0 {
		m.timeout, m.env = driving, []string{fmt.Sprint("REDQUORUM_HISTORIES=", histories)}
		if bugs, err = forDriver(ctx, root, bugs); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "seeded-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a directory for temporary files
	m.dir = dir
	if err := copyModule(root, dir); err != nil {
		return err
	}
	if err := fit(ctx, &m, bugs); err != nil {
		return err
	}
	if err := passes(ctx, &m, bugs); err != nil {
		return err
	}
	return catch(ctx, &m, bugs)
}

// forDriver makes the driver the step of the bugs that it can notice, and prints why not of others.
func forDriver(ctx context.Context, root string, bugs []bug) (driven []bug, err error) {
	list := exec.CommandContext(ctx, "go", "list", "-deps", "-test", "-f", "{{.Dir}}", driver.pkg)
	list.Dir = root
	dirs, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for _, b := range bugs {
		if b.hidden == "" && !b.changes(root, strings.Split(string(dirs), "\n")) {
			b.hidden = "it is built of nothing that this changes"
		}
		if b.hidden != "" {
			fmt.Printf("%s: not for the driver, because %s\n", b.name, b.hidden)
			continue
		}
		b.step = driver
		driven = append(driven, b)
	}
	return driven, nil
}

// fit returns an error unless each bug fits the module, alone.
func fit(ctx context.Context, m *module, bugs []bug) error {
	for i := range bugs {
		if err := m.apply(ctx, &bugs[i], "--check"); err != nil {
			return fmt.Errorf("%s: %w", bugs[i].name, err)
		}
	}
	return nil
}

// passes returns an error unless each step passes in the library as it is.
func passes(ctx context.Context, m *module, bugs []bug) error {
	tests, packages := map[string][]string{}, []string{}
	for _, b := range bugs {
		if tests[b.step.pkg] == nil {
			packages = append(packages, b.step.pkg)
		}
		if !slices.Contains(tests[b.step.pkg], b.step.test) {
			tests[b.step.pkg] = append(tests[b.step.pkg], b.step.test)
		}
	}
	for _, pkg := range packages {
		output, err := m.test(ctx, pkg, tests[pkg]...)
		if err != nil {
			return err
		}
		for _, test := range tests[pkg] {
			if v := judge(output, test); v != survived {
				return fmt.Errorf("%s %s, without a bug: %s\n%s", pkg, test, strings.ToLower(string(v)), output)
			}
		}
		fmt.Printf("without a bug: %s passes %d\n", pkg, len(tests[pkg]))
	}
	return nil
}

// catch lets each step look for its bug, and returns an error if one is not caught.
func catch(ctx context.Context, m *module, bugs []bug) error {
	count := 0
	for i := range bugs {
		b := &bugs[i]
		began := clock.System().Now()
		v, output, err := look(ctx, m, b)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		took := clock.System().Now().Sub(began)
		fmt.Printf("%s: %s (%v, %.1fs)%s\n", b.name, v, b.step, took.Seconds(), first(output))
		switch {
		case v == caught:
			count++
		case m.timeout != driving:
			fmt.Println(proof.Tail(output))
		}
	}
	fmt.Printf("seeded bugs: %d/%d\n", count, len(bugs))
	fmt.Println(proof.Line{
		Step: "seeded bugs", Size: fmt.Sprintf("%d of %d caught", count, len(bugs)), Violations: int64(len(bugs) - count),
	})
	if count < len(bugs) {
		return fmt.Errorf("%d not caught", len(bugs)-count)
	}
	return nil
}

// first returns what the driver says of the first history that failed.
func first(output string) string {
	found := regexp.MustCompile(`first: .*`).FindString(output)
	if found == "" {
		return ""
	}
	return ", " + found
}

// look runs the step of a bug with the bug in. If it survives that, the searches look for it that
// are too large for `go test ./...`, and that `make prove` makes.
func look(ctx context.Context, m *module, b *bug) (v verdict, output string, err error) {
	if err := m.apply(ctx, b); err != nil {
		return "", "", err
	}
	larger := *m
	larger.env = append(slices.Clip(m.env), "REDQUORUM_SEARCH=1")
	for _, m := range []*module{m, &larger} {
		if output, err = m.test(ctx, b.step.pkg, b.step.test); err != nil {
			return "", "", err
		}
		if v = judge(output, b.step.test); v != survived || b.step == driver {
			break
		}
	}
	return v, output, m.apply(ctx, b, "-R")
}
