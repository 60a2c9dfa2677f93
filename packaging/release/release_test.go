// Package release_test looks at what a release is made by. What it makes is tried by `make
// release-try`.
package release_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../.."

// read returns the texts of files of the repository, by their paths.
func read(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, paths, pattern)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			texts[path] = string(text)
		}
	}
	return texts
}

var (
	used     = regexp.MustCompile(`(?m)^\s*-? ?uses: (.*)$`)
	pinned   = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	latest   = regexp.MustCompile(`[\w./-]+@latest\b`)
	grants   = regexp.MustCompile(`(?m)^permissions: (.*)$`)
	fuzzes   = regexp.MustCompile(`(?m)^func Fuzz`)
	external = regexp.MustCompile(`(?m)^package \w+_test$`)
	byTools  = regexp.MustCompile(`\bgo (?:run|install) [\w./-]+\.[\w./-]+(@v[\d.]+)?`)
)

func TestWorkflowsRunNothingThatCanChange(t *testing.T) {
	count := 0
	for path, text := range read(t, ".github/workflows/*.yml") {
		for _, match := range used.FindAllStringSubmatch(text, -1) {
			assert.Regexp(t, pinned, match[1], path)
			count++
		}
		assert.Equal(t, []string{"permissions: {contents: read}"}, grants.FindAllString(text, -1), path)
	}
	assert.Greater(t, count, 15)
	for path, text := range read(t, ".github/workflows/*.yml", "Makefile", ".goreleaser.yaml", ".ci/*", "packaging/release/*") {
		if filepath.Ext(path) == ".go" {
			continue
		}
		assert.Empty(t, latest.FindAllString(text, -1), path)
		for _, tool := range byTools.FindAllString(text, -1) {
			assert.Regexp(t, `@v\d+\.\d+\.\d+$|go run \./`, tool, path)
		}
	}
}

// What a release has is made by these steps, and no other file says so.
func TestTheWorkflowMakesAllPieces(t *testing.T) {
	for path, wants := range map[string][]string{
		".github/workflows/release.yml": {
			"make release", "packaging/release/formula", "packaging/release/kit", "packaging/release/pieces", "subject-checksums: dist/checksums.txt",
			"subject-checksums: dist/digests.txt", "oras@v", "cosign sign", "attestations: write", "id-token: write", `grep -q "^## ${GITHUB_REF_NAME#v}, 20" CHANGELOG.md`,
		},
		".github/workflows/ci.yml":        {"golang.org/x/vuln/cmd/govulncheck@v"},
		".github/workflows/codeql.yml":    {"codeql-action/analyze@", "language: [go, actions]"},
		".github/workflows/scorecard.yml": {"scorecard-action@", "upload-sarif@"},
		".goreleaser.yaml":                {"sboms:", "cyclonedx-gomod@v", "\nsigns:", "docker_signs:", "docker_digest:", "nfpms:", "mod_timestamp:", "ldflags: [-s -w]"},
	} {
		for _, want := range wants {
			assert.Contains(t, read(t, path)[filepath.Join(root, path)], want, path)
		}
	}
}

// run runs a script of this folder.
func run(t *testing.T, script string, args ...string) (out string, err error) {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), "./"+script, args...).CombinedOutput()
	return string(text), err
}

// pieces are those of a release, without the checksums of the first.
func pieces() (summed, others []string) {
	for _, at := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64", "windows_amd64", "windows_arm64"} {
		archive := ".tar.gz"
		if strings.HasPrefix(at, "windows") {
			archive = ".zip"
		}
		summed = append(summed, "redlock_1.2.3_"+at+archive, "redlock_1.2.3_"+at+".cdx.json")
		if strings.HasPrefix(at, "linux") {
			summed = append(summed, "redlock_1.2.3_"+at+".deb", "redlock_1.2.3_"+at+".rpm")
		}
	}
	return summed, []string{"redlock.rb", "redlock-kit_1.2.3.tar.gz"}
}

// made is a folder with a release, less one of its pieces, or the checksum of it.
func made(t *testing.T, without, unsummed string) string {
	t.Helper()
	folder := t.TempDir()
	summed, others := pieces()
	var sums strings.Builder
	for _, name := range append(summed, others...) {
		if name != without {
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(name), 0o600))
		}
		if name != unsummed && slices.Contains(summed, name) {
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256([]byte(name)), name)
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "checksums.txt"), []byte(sums.String()), 0o600))
	return folder
}

func TestAMissingPieceIsNoticed(t *testing.T) {
	out, err := run(t, "pieces", made(t, "", ""), "1.2.3")
	require.NoError(t, err, out)
	summed, others := pieces()
	for _, name := range append(summed, others...) {
		out, err = run(t, "pieces", made(t, name, ""), "1.2.3")
		require.Error(t, err, name)
		assert.Contains(t, out, "missing: "+name)
	}
	for _, name := range summed {
		out, err = run(t, "pieces", made(t, "", name), "1.2.3")
		require.Error(t, err, name)
		assert.Contains(t, out, "no checksum: "+name)
	}
	folder := made(t, "", "")
	require.NoError(t, os.WriteFile(filepath.Join(folder, summed[0]), []byte("another"), 0o600))
	out, err = run(t, "pieces", folder, "1.2.3")
	require.Error(t, err)
	assert.Contains(t, out, summed[0])
}

func TestTheFormulaHasTheChecksumsOfItsArchives(t *testing.T) {
	sums := filepath.Join(made(t, "", ""), "checksums.txt")
	formula, err := run(t, "formula", "1.2.3", sums)
	require.NoError(t, err, formula)
	for _, at := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"} {
		archive := "redlock_1.2.3_" + at + ".tar.gz"
		assert.Contains(t, formula, fmt.Sprintf("/v1.2.3/%s\"\n      sha256 \"%x\"\n", archive, sha256.Sum256([]byte(archive))))
		out, err := run(t, "formula", "1.2.3", filepath.Join(made(t, "", archive), "checksums.txt"))
		require.Error(t, err)
		assert.Contains(t, out, "no checksum of "+archive)
	}
	ruby, err := exec.LookPath("ruby")
	if err != nil {
		t.Skip("NOT RUN: that Ruby can read it: ruby is not installed")
	}
	check := exec.CommandContext(t.Context(), ruby, "-c")
	check.Stdin = strings.NewReader(formula)
	out, err := check.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestTheKitHasTheImageOfItsVersionAndTheSameBytesEachTime(t *testing.T) {
	folder := t.TempDir()
	one, other := filepath.Join(folder, "1.tar.gz"), filepath.Join(folder, "2.tar.gz")
	for _, file := range []string{one, other} {
		out, err := run(t, "kit", "1.2.3", file)
		require.NoError(t, err, out)
	}
	first, err := os.ReadFile(one)
	require.NoError(t, err)
	second, err := os.ReadFile(other)
	require.NoError(t, err)
	assert.Equal(t, sha256.Sum256(first), sha256.Sum256(second))
	text, err := exec.CommandContext(t.Context(), "tar", "-xzOf", one, "./packaging/kubernetes/durable/kustomization.yaml").Output()
	require.NoError(t, err)
	assert.Contains(t, string(text), "ghcr.io/redquorum/redlock\n    newTag: \"1.2.3\"")
}

// fuzzer stands for the program in the image of OSS-Fuzz that builds a target: it tells what it was
// asked for, and sees that the package can be built from there, with its own tests alone.
const fuzzer = `set -eu
[ -z "$(go list -f '{{range .XTestGoFiles}}{{.}}{{end}}' "$1")" ]
printf 'package main\nimport _ "%s"\nfunc main() {}\n' "$1" >main.fuzz.go
go list ./main.fuzz.go
rm main.fuzz.go
echo "$1 $2 $3" >>`

// It cannot reach the targets of external test packages.
func TestEveryFuzzTargetInItsPackageIsBuiltForOSSFuzz(t *testing.T) {
	bin, src := t.TempDir(), t.TempDir()
	asked, checkout := filepath.Join(src, "asked"), filepath.Join(src, "redquorum")
	real, err := exec.LookPath("go")
	require.NoError(t, err)
	for name, script := range map[string]string{
		"compile_native_go_fuzzer_v2": fuzzer + asked,
		"go":                          `[ "$1" = get ] || exec ` + real + ` "$@"`, // from no network
	} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	}
	files := exec.CommandContext(t.Context(), "git", "checkout-index", "--all", "--prefix="+checkout+"/")
	files.Dir = root
	out, err := files.CombinedOutput()
	require.NoError(t, err, "%s", out)
	tests, err := exec.CommandContext(t.Context(), "grep", "-rlZ", "--include=*_test.go", "^func Fuzz", checkout).Output()
	require.NoError(t, err)
	count := 0
	for path := range strings.SplitSeq(strings.TrimSuffix(string(tests), "\x00"), "\x00") {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		if !external.Match(text) {
			count += len(fuzzes.FindAll(text, -1))
		}
	}
	build := exec.CommandContext(t.Context(), "bash", "-eu", filepath.Join(checkout, "packaging/oss-fuzz/build.sh"))
	build.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "SRC="+src)
	out, err = build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	text, err := os.ReadFile(asked)
	require.NoError(t, err)
	built, names := []string{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		built = append(built, strings.TrimPrefix(fields[0], "github.com/redquorum/redquorum/")+" "+fields[1])
		assert.False(t, names[fields[2]], "two of one name: %s", line)
		names[fields[2]] = true
	}
	assert.Len(t, built, count, built)
	assert.Contains(t, built, "redlock/internal/wire FuzzReplies")
}
