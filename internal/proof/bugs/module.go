package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// module is a copy of the module, in which bugs come and go. There is one for all of them, so that
// Go builds only what a bug touches.
type module struct {
	dir     string
	timeout time.Duration // of a step
	env     []string      // of a step, beside ours
}

// copyModule copies the module at root, with what is not committed and without the modules below
// it.
func copyModule(root, to string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || hasModule(path)):
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, relative), 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, relative), text, 0o644)
	})
}

func hasModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// apply puts a bug in, takes it out again with "-R", or looks whether it fits with "--check".
func (m *module) apply(ctx context.Context, b *bug, flags ...string) error {
	args := append([]string{"apply", "--whitespace=nowarn"}, flags...)
	git := exec.CommandContext(ctx, "git", append(args, "-")...)
	git.Dir = m.dir
	// Outside of a repository, git takes paths as they are.
	git.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(m.dir))
	git.Stdin = strings.NewReader(b.patch)
	if output, err := git.CombinedOutput(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			return err
		}
		return fmt.Errorf("the patch no longer fits the library, make it anew (internal/proof/README.md): %s", strings.TrimSpace(string(output)))
	}
	return nil
}

// test runs tests of one package, and returns their output.
func (m *module) test(ctx context.Context, pkg string, tests ...string) (output string, err error) {
	// With -trimpath, the cache has what an earlier run has built in another directory.
	run := exec.CommandContext(ctx, "go", "test", "-trimpath", "-ldflags=-s -w", "-vet=off", "-v", "-count=1", "-timeout="+m.timeout.String(),
		"-run=^("+strings.Join(tests, "|")+")$", pkg)
	run.Dir, run.Env = m.dir, append(os.Environ(), m.env...)
	run.Cancel = func() error { return run.Process.Signal(os.Interrupt) } // go passes it on
	text, err := run.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && ctx.Err() == nil {
		err = nil // the output says more
	}
	return string(text), err
}

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
