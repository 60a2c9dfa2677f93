package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// root is that of the module.
const root = "../../.."

func bugsOf(t *testing.T) []bug {
	t.Helper()
	bugs, err := readBugs("patches")
	require.NoError(t, err)
	return bugs
}

func TestEveryBugNamesAClaimAndAStepThatExist(t *testing.T) {
	safety, err := os.ReadFile(filepath.Join(root, "docs", "safety.md"))
	require.NoError(t, err)
	for _, b := range bugsOf(t) {
		if b.claim != "-" {
			assert.Contains(t, string(safety), "\n| "+b.claim+" | ", b.name)
		}
		files, err := filepath.Glob(filepath.Join(root, b.step.pkg, "*_test.go"))
		require.NoError(t, err)
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			found = found || strings.Contains(string(text), "\nfunc "+b.step.test+"(t *testing.T)")
		}
		assert.True(t, found, "%s: there is no %v", b.name, b.step)
	}
}

// The table of what the driver catches names bugs that there are, and that it can notice.
func TestTheTableOfTheDriverIsOfBugsThatItCanNotice(t *testing.T) {
	text, err := os.ReadFile("driver.tsv")
	require.NoError(t, err)
	visible := make(map[string]bool)
	for _, b := range bugsOf(t) {
		visible[b.name] = b.hidden == ""
	}
	rows := strings.Split(strings.TrimSpace(string(text)), "\n")[1:]
	assert.True(t, slices.IsSorted(rows))
	for _, row := range rows {
		columns := strings.Split(row, "\t")
		require.Len(t, columns, 3, row)
		assert.True(t, visible[columns[0]], "%s: there is no such bug, or the driver cannot notice it: leave the row out", columns[0])
		histories, err := strconv.Atoi(columns[1])
		require.NoError(t, err, row)
		if columns[2] == "-" {
			continue
		}
		first, err := strconv.Atoi(columns[2])
		require.NoError(t, err, row)
		assert.True(t, 1 <= first && first <= histories, row)
	}
}

// needsGit skips a test that puts bugs in where there is no git. CI installs it.
func needsGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no git in PATH, and CI=true: install it")
		}
		t.Skip("no git in PATH: install it to run this test")
	}
}

func TestEveryBugFitsTheLibrary(t *testing.T) {
	needsGit(t)
	dir, err := filepath.Abs(root)
	require.NoError(t, err)
	require.NoError(t, fit(t.Context(), &module{dir: dir}, bugsOf(t)))
}

func TestOnlyAnAssertionCatchesABug(t *testing.T) {
	for output, want := range map[string]verdict{
		"=== RUN   TestA\n    a_test.go:9: wrong\n--- FAIL: TestA (0.00s)\nFAIL\n":                             caught,
		"=== RUN   TestA\n    a_test.go:9: \n        panic: of a reply\n--- FAIL: TestA (0.00s)\n":             caught,
		"=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\n":                                                     survived,
		"testing: warning: no tests to run\nPASS\n":                                                            absent,
		"=== RUN   TestAB\n--- FAIL: TestAB (0.00s)\nFAIL\n":                                                   absent,
		"=== RUN   TestA\n--- SKIP: TestA (0.00s)\nPASS\n":                                                     absent,
		"./a.go:1:2: undefined: b\nFAIL\tmodule/a [build failed]\n":                                            unbuilt,
		"FAIL\tmodule/a [setup failed]\n":                                                                      unbuilt,
		"=== RUN   TestA\npanic: test timed out after 2m0s\n\trunning tests:\n\t\tTestA (2m0s)\n":              hung,
		"=== RUN   TestA\n    a_test.go:9: wrong\npanic: test timed out after 2m0s\n":                          hung,
		"=== RUN   TestA\n--- FAIL: TestA (0.00s)\npanic: runtime error: index out of range\n\ngoroutine 7:\n": crashed,
		"=== RUN   TestA\nfatal error: all goroutines are asleep - deadlock!\n":                                crashed,
		"=== RUN   TestA\n--- FAIL: TestA (0.00s)\npanic: deadlock: main bubble goroutine has exited\n":        crashed,
	} {
		assert.Equal(t, want, judge(output, "TestA"), "%s", output)
	}
}

// A module with one function, two bugs, and a test that notices one of them.
func TestABugThatSurvivesIsAnError(t *testing.T) {
	needsGit(t)
	dir := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write("go.mod", "module seeds\n\ngo 1.25\n")
	write("a.go", "package a\n\nfunc sum(a, b int) int { return a + b }\n")
	write("a_test.go", "package a\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n"+
		"\tif sum(2, 2) != 4 {\n\t\tt.Error(\"wrong\")\n\t}\n}\n")
	sow := func(name, instead string) {
		write(filepath.Join(bugsDir, name+".patch"), "breaks: It does not add.\nclaim: S1\nstep: ./ TestSum\n\n"+
			"--- a/a.go\n+++ b/a.go\n@@ -1,3 +1,3 @@\n package a\n \n-func sum(a, b int) int { return a + b }\n+"+instead+"\n")
	}
	sow("minus", "func sum(a, b int) int { return a - b }")
	sow("times", "func sum(a, b int) int { return a * b }")
	require.EqualError(t, seed(t.Context(), dir, "", false, 0), "1 not caught")
	require.ErrorContains(t, seed(t.Context(), dir, "plus", false, 0), "no bug matches")
	write("a.go", "package a\n\nfunc sum(x, y int) int { return x + y }\n")
	require.ErrorContains(t, seed(t.Context(), dir, "minus", false, 0), "minus: the patch no longer fits")
	write("a.go", "package a\n\nfunc sum(a, b int) int { return a + b }\n")
	write("a_test.go", "package a\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) { t.Error(sum(2, 2)) }\n")
	require.ErrorContains(t, seed(t.Context(), dir, "", false, 0), "without a bug: caught")
}
