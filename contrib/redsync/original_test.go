package redsync_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

const (
	ours   = "github.com/redquorum/redquorum/contrib/redsync"
	theirs = "github.com/go-redsync/redsync/v4"
)

// leftOut are the tests of redsync whose expectation the shim does not meet, and why.
var leftOut = map[string]string{
	"TestSetNXOnExtendAcquiresLockWhenKeyIsExpired": "an extension must not bring a lock back to life: somebody else may have held it since it expired",
}

// internals are the tests of redsync that are not about mutexes, and are not run.
var internals = map[string]string{
	"TestScripts_Hash": "the digests of redsync's own scripts, of which the shim uses none",
}

// The program of suite_test.go runs on redsync itself, with its import changed and nothing else.
func TestTheSameProgramRunsOnRedsync(t *testing.T) {
	redistest.Require(t)
	dir := newModule(t)
	program := read(t, "suite_test.go")
	tests := testsOf(t, program)
	require.Equal(t, 1, strings.Count(program, `"`+ours+`"`))
	write(t, dir, "suite_test.go", strings.Replace(program, `"`+ours+`"`, `"`+theirs+`"`, 1))
	write(t, dir, "pools_test.go", read(t, "pools_test.go"))
	write(t, dir, "env_test.go", read(t, "testdata/program/env_test.go"))

	results, output := run(t, dir)
	for name := range tests {
		assert.Equal(t, "PASS", results[name], "%s\n%s", name, output)
	}
	assert.Len(t, results, len(tests))
}

// redsync's own tests, from the module cache, run on the shim.
func TestRedsyncsOwnTestsPass(t *testing.T) {
	redistest.Require(t)
	source := sourceOfRedsync(t)
	dir := newModule(t)
	write(t, dir, "adapter_test.go", read(t, "testdata/original/adapter_test.go"))
	write(t, dir, "pools_test.go", strings.Replace(read(t, "pools_test.go"), "package redsync_test", "package redsync", 1))

	tests := map[string]string{}
	for _, file := range []string{"mutex_test.go", "error_test.go"} {
		text := read(t, filepath.Join(source, file))
		maps.Copy(tests, testsOf(t, text))
		write(t, dir, file, text)
	}
	// The rest of this file starts servers and makes clients for them.
	general := testsOf(t, read(t, filepath.Join(source, "redsync_test.go")))
	write(t, dir, "redsync_test.go", "package redsync\n\nimport (\n\"context\"\n\"testing\"\n)\n\n"+general["TestRedsync"])
	delete(general, "TestMain")
	maps.Copy(tests, general)
	writeTable(t, dir, slices.Sorted(maps.Keys(tests)))

	results, output := run(t, dir)
	for name := range tests {
		want := "PASS"
		if reason := leftOut[name]; reason != "" {
			want = "FAIL"
			t.Logf("%s must fail: %s", name, reason)
		}
		assert.Equal(t, want, results["TestOriginals/"+name], "%s\n%s", name, output)
	}
	for name, reason := range internals {
		assert.NotContains(t, tests, name)
		t.Logf("%s is not run: %s", name, reason)
	}
	for name := range leftOut {
		assert.Contains(t, tests, name)
	}
	assert.GreaterOrEqual(t, len(tests), 14)
}

// Every test of redsync's package is run, or named.
func TestNoTestOfRedsyncIsForgotten(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(sourceOfRedsync(t), "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		switch filepath.Base(file) {
		case "mutex_test.go", "error_test.go", "redsync_test.go":
			continue
		}
		for name := range testsOf(t, read(t, file)) {
			assert.Contains(t, internals, name, "of %s", filepath.Base(file))
		}
	}
}

// sourceOfRedsync returns where the module cache has redsync.
func sourceOfRedsync(t *testing.T) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", theirs).Output()
	require.NoError(t, err)
	source := strings.TrimSpace(string(dir))
	if _, err := os.Stat(filepath.Join(source, "mutex_test.go")); source == "" || err != nil {
		t.Skipf("the source of %s is not in the module cache: run go mod download", theirs)
	}
	return source
}

// newModule makes a module with the requirements of this one, and this one besides.
func newModule(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	here, err := filepath.Abs(".")
	require.NoError(t, err)
	requirements := read(t, "go.mod")
	requirements = strings.Replace(requirements, "module "+ours, "module "+ours+"/original", 1)
	requirements = strings.Replace(requirements, "=> ../..", "=> "+filepath.Dir(filepath.Dir(here)), 1)
	requirements += fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %s => %s\n", ours, ours, here)
	write(t, dir, "go.mod", requirements)
	write(t, dir, "go.sum", read(t, "go.sum"))
	return dir
}

// testsOf returns the source of each test of a file.
func testsOf(t *testing.T, text string) map[string]string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", text, parser.SkipObjectResolution)
	require.NoError(t, err)
	tests := map[string]string{}
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if ok && strings.HasPrefix(function.Name.Name, "Test") {
			tests[function.Name.Name] = text[files.Position(function.Pos()).Offset:files.Position(function.End()).Offset]
		}
	}
	return tests
}

// writeTable writes a test that starts the servers and then runs the others.
func writeTable(t *testing.T, dir string, names []string) {
	t.Helper()
	var table bytes.Buffer
	table.WriteString("package redsync\n\nimport \"testing\"\n\nfunc TestOriginals(t *testing.T) {\n\tstartServers(t)\n")
	for _, name := range names {
		fmt.Fprintf(&table, "\tt.Run(%q, %s)\n", name, name)
	}
	table.WriteString("}\n")
	write(t, dir, "table_test.go", table.String())
}

var result = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): ([^/\s]+(?:/Test[^/\s]+)?) `)

// run runs the tests of a module, which finds all it needs in the module cache, and returns what
// became of them.
func run(t *testing.T, dir string) (results map[string]string, output string) {
	t.Helper()
	arguments := []string{"test", "-mod=mod", "-count=1", "-v", "-timeout=5m"}
	if _, err := os.Stat(filepath.Join(dir, "table_test.go")); err == nil {
		arguments = append(arguments, "-run=^TestOriginals$")
	}
	command := exec.CommandContext(t.Context(), "go", append(arguments, ".")...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off", "GOFLAGS=-buildvcs=false")
	all, err := command.CombinedOutput()
	results = map[string]string{}
	for _, match := range result.FindAllStringSubmatch(string(all), -1) {
		results[match[2]] = match[1]
	}
	if err != nil && len(results) == 0 {
		t.Fatalf("%v\n%s", err, all)
	}
	return results, string(all)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}
