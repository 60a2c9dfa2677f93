package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// bug is a change that makes the library wrong, and what must notice.
type bug struct {
	name   string // of the file, without .patch
	breaks string // what is wrong with it, as a sentence
	claim  string // of docs/safety.md, such as S2; "-" for a promise that is only in a doc comment
	step   step   // must fail
	hidden string // why the driver of the public API cannot notice; "" if it can
	patch  string // the file: the header, and the diff behind it
}

// step is one test of one package.
type step struct {
	pkg  string // relative to the module, such as ./redlock
	test string
}

func (s step) String() string { return s.pkg + " " + s.test }

// Each file begins with these lines, in this order, and an empty line:
//
//	breaks: <what is wrong, in a sentence>
//	claim: <a claim of docs/safety.md, or ->
//	step: <package> <test>
//
// There is one more where the driver of the public API is built of what the patch changes, and
// still cannot notice:
//
//	driver: no, because <the reason>
var header = regexp.MustCompile(`^breaks: (\S.*)\nclaim: (S[1-9]\d*|-)\nstep: (\./\S*) (Test\w+)\n(?:driver: no, because (\S.*)\n)?\n(?:diff --git |--- )a/`)

// readBugs reads the bugs of a directory, in the order of their claims.
func readBugs(dir string) ([]bug, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	var bugs []bug
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		b, err := parseBug(strings.TrimSuffix(filepath.Base(path), ".patch"), string(text))
		if err != nil {
			return nil, err
		}
		bugs = append(bugs, b)
	}
	if len(bugs) == 0 {
		return nil, errors.New("no bugs in " + dir)
	}
	slices.SortStableFunc(bugs, func(a, b bug) int { return cmp.Compare(a.number(), b.number()) })
	return bugs, nil
}

func parseBug(name, text string) (bug, error) {
	found := header.FindStringSubmatch(text)
	if found == nil {
		return bug{}, fmt.Errorf("%s does not begin with breaks, claim and step, an empty line and a diff", name)
	}
	return bug{name: name, breaks: found[1], claim: found[2], step: step{found[3], found[4]}, hidden: found[5], patch: text}, nil
}

// number returns that of the claim. Without one, the bug is behind all others.
func (b *bug) number() (n int) {
	if b.claim == "-" {
		return math.MaxInt
	}
	for _, digit := range b.claim[1:] {
		n = 10*n + int(digit-'0')
	}
	return n
}

// changed finds the files that a patch changes.
var changed = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)`)

// changes reports whether the patch changes a package in one of some directories: a file of it, or
// one that it embeds.
func (b *bug) changes(root string, dirs []string) bool {
	for _, file := range changed.FindAllStringSubmatch(b.patch, -1) {
		dir, err := filepath.Abs(filepath.Join(root, filepath.Dir(file[1])))
		if err == nil && (slices.Contains(dirs, dir) || slices.Contains(dirs, filepath.Dir(dir)) && filepath.Ext(file[1]) == ".lua") {
			return true
		}
	}
	return false
}

// words returns the name as words.
func (b *bug) words() string { return strings.ReplaceAll(b.name, "-", " ") }

// markdown returns a table of what each bug does, and what catches it.
func markdown(bugs []bug) string {
	var to strings.Builder
	to.WriteString("| bug | what it does | claim | caught by |\n| --- | --- | --- | --- |\n")
	for _, b := range bugs {
		fmt.Fprintf(&to, "| %s | %s | %s | `%s` |\n", b.words(), b.breaks, b.claim, b.step.test)
	}
	return to.String()
}
