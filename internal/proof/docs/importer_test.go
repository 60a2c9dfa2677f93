package docs

import (
	"fmt"
	"io/fs"
	"net/url"
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

// program imports the library, as people's own do.
const program = `package main

import (
	"context"

	"github.com/redquorum/redquorum/redlock"
)

func main() {
	l, _ := redlock.New([]string{"redis://a:6379"})
	l.TryLock(context.Background(), "nightly")
}
`

// stranger is a module of somebody else, with a module cache of its own.
type stranger struct {
	t           *testing.T
	dir, cache  string
	environment []string
}

// newStranger returns a module that imports this one as it is here. The modules come from the cache
// of this machine, and only those that it lacks over the network.
func newStranger(t *testing.T) *stranger {
	t.Helper()
	p := &stranger{t: t, dir: t.TempDir(), cache: t.TempDir()}
	known, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	require.NoError(t, err)
	here, proxy, _ := strings.Cut(strings.TrimSpace(string(known)), "\n")
	p.environment = append(os.Environ(), "GOMODCACHE="+p.cache, "GOFLAGS=-modcacherw", "GOWORK=off", "GOTOOLCHAIN=local", "GOSUMDB=off",
		"GOPROXY="+(&url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(here, "cache", "download"))}).String()+","+proxy)
	above, err := filepath.Abs(root)
	require.NoError(t, err)
	module := fmt.Sprintf("module example.com/program\n\ngo %s\n\nrequire github.com/redquorum/redquorum v0.0.0\nreplace github.com/redquorum/redquorum => %q\n",
		oldestGo.FindStringSubmatch(read(t, "go.mod"))[1], above)
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "go.mod"), []byte(module), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "main.go"), []byte(program), 0o600))
	return p
}

var oldestGo = regexp.MustCompile(`(?m)^go (\S+)$`)

// downloads runs a command of Go with an empty cache, and returns the modules that it downloaded.
func (p *stranger) downloads(args ...string) (modules []string) {
	p.t.Helper()
	downloaded := filepath.Join(p.cache, "cache", "download")
	require.NoError(p.t, os.RemoveAll(p.cache))
	command := exec.Command("go", args...)
	command.Dir, command.Env = p.dir, p.environment
	out, err := command.CombinedOutput()
	require.NoError(p.t, err, "%s", out)
	require.NoError(p.t, filepath.WalkDir(downloaded, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".zip" {
			module, _, _ := strings.Cut(filepath.ToSlash(path[len(downloaded)+1:]), "/@v/")
			modules = append(modules, module)
		}
		return err
	}))
	slices.Sort(modules)
	return modules
}

// What the command needs (cobra, the terminal, …) stays with those who build the command: Go prunes
// it from the modules of those who import the library, as long as no package of the library, and no
// test of one, imports it.
func TestWhoImportsTheLibraryDownloadsNothingOfTheCommand(t *testing.T) {
	built := []string{"github.com/gomodule/redigo", "github.com/hashicorp/errwrap", "github.com/hashicorp/go-multierror", "golang.org/x/sys"}
	tested := []string{ // by the tests of the library, which the sums of a tidy module cover
		"github.com/alicebob/miniredis/v2", "github.com/stretchr/testify", "github.com/yuin/gopher-lua", "go.yaml.in/yaml/v3",
		"pgregory.net/rapid",
	}
	p := newStranger(t)
	all := slices.Sorted(slices.Values(slices.Concat(built, tested)))
	assert.Equal(t, all, p.downloads("mod", "tidy"))
	assert.Equal(t, built, p.downloads("list", "-deps", ".")) // as a build would, without compiling
	sums, err := os.ReadFile(filepath.Join(p.dir, "go.sum"))
	require.NoError(t, err)
	var summed []string
	for line := range strings.Lines(string(sums)) {
		summed = append(summed, strings.Fields(line)[0])
	}
	assert.Equal(t, all, slices.Compact(summed), "modules in go.sum")
	module, err := os.ReadFile(filepath.Join(p.dir, "go.mod"))
	require.NoError(t, err)
	assert.Equal(t, "1.25.0", oldestGo.FindStringSubmatch(string(module))[1], "the Go that a program needs")
	// What the page says.
	page := strings.Join(strings.Fields(read(t, "CONTRIBUTING.md")), " ")
	assert.Contains(t, page, fmt.Sprintf("downloads %d modules to build, and %d more", len(built), len(tested)))
}
