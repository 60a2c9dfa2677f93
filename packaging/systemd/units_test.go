// Package systemd_test looks at the units as systemd does, and runs their lines.
package systemd_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// machine is where the units are installed: a folder in place of /.
type machine struct {
	t    *testing.T
	root string
}

func install(t *testing.T) *machine {
	t.Helper()
	m := &machine{t, t.TempDir()}
	build := exec.Command("go", "build", "-buildvcs=false", "-o", m.path("/usr/bin/redlock"), "./cmd/redlock")
	build.Dir = "../.."
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.MkdirAll(m.path("/etc/redlock/jobs"), 0o700))
	require.NoError(t, os.MkdirAll(m.path("/run/redlock"), 0o700))
	return m
}

func (m *machine) path(path string) string { return m.root + path }

func (m *machine) write(path, text string, mode os.FileMode) {
	m.t.Helper()
	require.NoError(m.t, os.WriteFile(m.path(path), []byte(text), mode))
}

// units are the names of the files, by their ends.
func units(t *testing.T, ends ...string) (names []string) {
	t.Helper()
	for _, end := range ends {
		found, err := filepath.Glob("*" + end)
		require.NoError(t, err)
		require.NotEmpty(t, found)
		names = append(names, found...)
	}
	return names
}

var (
	lineOf  = regexp.MustCompile(`(?m)^ExecStart=(.+)$`)
	flagsOf = regexp.MustCompile(`(?m)^Environment="FLAGS=(.+)"$`)
)

// words are those of the line of a unit for an instance of it, with the paths of this machine.
func (m *machine) words(unit, instance string, variables ...string) (words []string) {
	m.t.Helper()
	text, err := os.ReadFile(unit)
	require.NoError(m.t, err)
	line := lineOf.FindStringSubmatch(string(text))
	require.NotNil(m.t, line, unit)
	if flags := flagsOf.FindStringSubmatch(string(text)); flags != nil {
		line[1] = strings.Replace(line[1], "$FLAGS", flags[1], 1)
	}
	fill := strings.NewReplacer(append(variables, "%i", instance, "unix:/", "unix:"+m.root+"/")...)
	for _, word := range strings.Fields(line[1]) {
		if strings.HasPrefix(word, "/") {
			word = m.path(word)
		}
		word = fill.Replace(word)
		assert.NotContains(m.t, word, "$", unit)
		words = append(words, word)
	}
	return words
}

// commented are the lines of master.conf for TLS.
var commented = regexp.MustCompile(`(?m)^#(port|tls-)`)

// masters starts those of redlock-master.service, and writes the list of them.
func (m *machine) masters(overTLS bool) {
	m.t.Helper()
	redistest.Require(m.t)
	out, err := exec.Command("sh", "../secrets", m.path("/secrets"), "master.example").CombinedOutput()
	require.NoError(m.t, err, "%s", out)
	made := m.path("/secrets/masters")
	words := m.words("redlock-master.service", "", "${STATE_DIRECTORY}", "/state", "${CREDENTIALS_DIRECTORY}", made)
	require.Equal(m.t, []string{m.path("/usr/bin/redis-server"), m.path("/etc/redlock/master.conf"), "--dir", "/state", "--aclfile"}, words[:5])
	conf, err := os.ReadFile("master.conf")
	require.NoError(m.t, err)
	password, err := os.ReadFile(m.path("/secrets/operator/password"))
	require.NoError(m.t, err)
	if overTLS {
		conf = commented.ReplaceAll(conf, []byte("$1"))
	}
	text := strings.ReplaceAll(string(conf), "/run/credentials/redlock-master.service", made)
	args := append(redistest.Directives(text, "bind", "port", "tls-port"), words[4:]...)
	var urls []string
	for range 3 {
		at, end, more := redistest.FreeAddr(m.t), "", []string(nil)
		if overTLS { // beside a port for our own probe
			_, port, err := net.SplitHostPort(at)
			require.NoError(m.t, err)
			more, end = []string{"--tls-port", port}, "?servername=master.example&cacert="+m.path("/secrets/operator/ca.crt")
		}
		server := redistest.StartOne(m.t, redistest.WithArgs(slices.Concat(args, more)...))
		scheme := "rediss://"
		if !overTLS {
			scheme, at = "redis://", server.Addr()
		}
		urls = append(urls, scheme+"operator:"+string(password)+"@"+at+end)
	}
	m.write("/etc/redlock/nodes", strings.Join(urls, "\n"), 0o600)
}

// run runs the line of a unit until it ends.
func (m *machine) run(unit, instance string) (out string, err error) {
	m.t.Helper()
	words := m.words(unit, instance)
	text, err := exec.CommandContext(m.t.Context(), words[0], words[1:]...).CombinedOutput()
	return string(text), err
}

// start starts it.
func (m *machine) start(unit, instance string) {
	m.t.Helper()
	words := m.words(unit, instance)
	command := exec.Command(words[0], words[1:]...)
	command.Stderr = io.Discard
	child.Start(m.t, command)
}

func TestSystemdTakesTheUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("%v, and CI=true: install systemd", err)
	}
	if err != nil {
		t.Skipf("%v: install systemd to run this test", err)
	}
	folder := t.TempDir()
	var paths []string
	for _, name := range units(t, ".service", ".timer") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		text = regexp.MustCompile(`(?m)^ExecStart=\S+`).ReplaceAll(text, []byte("ExecStart=/bin/true"))
		path := filepath.Join(folder, strings.Replace(name, "@", "@nightly", 1))
		require.NoError(t, os.WriteFile(path, text, 0o600))
		paths = append(paths, path)
	}
	out, err := exec.Command(analyze, append([]string{"verify", "--man=no"}, paths...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.NotContains(t, string(out), folder, "what it doubts, it names with the file")
}

func TestTheUnitsRun(t *testing.T) {
	for _, overTLS := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", overTLS), func(t *testing.T) {
			t.Parallel()
			testUnits(t, overTLS)
		})
	}
}

func testUnits(t *testing.T, overTLS bool) {
	t.Helper()
	m := install(t)
	m.masters(overTLS)
	doctor := func() (string, error) {
		out, err := exec.Command(m.path("/usr/bin/redlock"), "doctor", "--nodes-file", m.path("/etc/redlock/nodes"), "--fail-on", "warning").CombinedOutput()
		return string(out), err
	}
	cluster.Eventually(t, time.Minute, func() string {
		out, err := doctor()
		if err == nil {
			return ""
		}
		return out
	})

	done := m.path("/done")
	m.write("/etc/redlock/jobs/nightly", "#!/bin/sh\necho $REDLOCK_NAME >>'"+done+"'\n", 0o700)
	for range 2 { // of two machines, one runs it
		out, err := m.run("redlock-run@.service", "nightly")
		assert.NoError(t, err, "%s", out)
	}
	text, err := os.ReadFile(done)
	require.NoError(t, err)
	assert.Equal(t, "nightly\n", string(text))

	leads := m.path("/leads")
	m.write("/etc/redlock/jobs/scheduler", "#!/bin/sh\necho $REDLOCK_FENCE >'"+leads+"'\nexec sleep 60\n", 0o700)
	m.start("redlock-elect@.service", "scheduler")
	m.start("redlock-serve.service", "")
	for _, path := range []string{leads, m.path("/run/redlock/http.sock"), m.path("/run/redlock/redis.sock")} {
		cluster.Eventually(t, time.Minute, func() string {
			if _, err := os.Stat(path); err != nil {
				return err.Error()
			}
			return ""
		})
	}
}

// The packages have them, and the timer of each job is that of its service.
func TestTheUnitsArePackaged(t *testing.T) {
	config, err := os.ReadFile("../../.goreleaser.yaml")
	require.NoError(t, err)
	for _, source := range []string{"packaging/systemd/*.service", "packaging/systemd/*.timer", "packaging/systemd/master.conf", "packaging/secrets"} {
		assert.Contains(t, string(config), "src: "+source+"\n")
	}
	services := units(t, ".service")
	for _, timer := range units(t, ".timer") {
		assert.True(t, slices.Contains(services, strings.TrimSuffix(timer, ".timer")+".service"), timer)
	}
}
