package serve

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
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

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// sample is a program in docs/languages.md, behind a mark that says what runs it. It locks order/42
// and says that it is working.
var sample = regexp.MustCompile("(?s)<!-- runs: (\\w+) -->\n```\\w+\n(.*?)```\n")

// interpreters are what runs samples: the end of the file's name, the first of the programs that
// can do something, what it must be able to do, and what it is told beside the file.
var interpreters = map[string]struct {
	suffix   string
	programs []string
	can      []string
	options  []string
	optional bool // also in CI
}{
	"sh":      {".sh", []string{"sh"}, []string{"-c", "curl --version"}, nil, false},
	"php":     {".php", []string{"php"}, []string{"-r", "new Redis();"}, nil, false},
	"laravel": {".php", []string{"php"}, []string{"-r", laravel}, nil, false},
	"python":  {".py", []string{"python3", "/usr/bin/python3"}, []string{"-c", "import redis"}, nil, false},
	"node":    {".mjs", []string{"node"}, []string{"-e", "fetch"}, nil, false},
	"ruby":    {".rb", []string{"ruby"}, []string{"-e", "require 'redis'"}, nil, false},
	// A program that ends at once needs no good machine code.
	"java": {".java", []string{"java"}, []string{"-version"}, []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}, true},
}

// laravel is as much of a Laravel application as its Cache::store('locks') needs. The connection is
// that of Predis, as one of Laravel's: the packages of Debian have the cache and no connections.
const laravel = `
foreach (['Predis', 'Illuminate/Cache', 'Illuminate/Support', 'Illuminate/Contracts', 'Carbon'] as $of) {
    require_once "$of/autoload.php";
}
class Connections implements Illuminate\Contracts\Redis\Factory
{
    public function connection($name = null)
    {
        return new Predis\Client(['host' => '127.0.0.1', 'port' => 6390]);
    }
}
class Cache
{
    public static function store($name)
    {
        return new Illuminate\Cache\Repository(new Illuminate\Cache\RedisStore(new Connections, 'laravel_cache:', $name));
    }
}
`

// find returns the interpreter of a kind of sample.
func find(t *testing.T, kind string) string {
	t.Helper()
	with, known := interpreters[kind]
	require.True(t, known, "the page has a sample that nothing runs: %s", kind)
	var why strings.Builder
	for _, program := range with.programs {
		said, err := exec.CommandContext(t.Context(), program, with.can...).CombinedOutput()
		if err == nil {
			return program
		}
		why.WriteString(program + ": " + err.Error() + "\n" + string(said))
	}
	if os.Getenv("CI") != "" && !with.optional {
		t.Fatalf("samples for %s cannot run: %s", kind, why.String())
	}
	t.Skipf("NOT RUN: samples for %s: %s", kind, why.String())
	return ""
}

// Each sample is run twice, on a name of its own: where the lock is free, it works and releases it.
// Where somebody else has it, a program in Go here, it does not work.
func TestTheSamplesForEveryLanguageRun(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/languages.md")
	require.NoError(t, err)
	samples := sample.FindAllStringSubmatch(string(text), -1)
	require.GreaterOrEqual(t, len(samples), 9)

	urls := []string{}
	for _, server := range redistest.Start(t, 3) {
		urls = append(urls, server.URL())
	}
	said := start(t, 2, "--nodes", strings.Join(urls, ","), "--listen", "127.0.0.1:0", "--redis", "127.0.0.1:0", "--allow-locks")
	addresses := []string{
		"127.0.0.1:8700", strings.Trim(strings.TrimPrefix(said[1], "redlock: serving http:"), "/"),
		`"127.0.0.1", 8700`, "'127.0.0.1', " + portOf(strings.Trim(said[1], "/")),
		"6390", portOf(said[0]),
		"laravel_cache:", "", // which an application takes away, so that other programs share the name
		"10s", "1s", "blocking_timeout=10", "blocking_timeout=1", "block(10", "block(1",
	}
	locker, err := redlock.New(urls)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, locker.Close()) })
	require.NoError(t, locker.Ready(t.Context()))

	for i, one := range samples {
		kind, program := one[1], one[2]
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprintf("order/%d", i)
			interpreter := find(t, kind)
			if kind == "laravel" {
				program = "<?php" + laravel + program
			}
			path := filepath.Join(t.TempDir(), "Lease"+interpreters[kind].suffix)
			require.NoError(t, os.WriteFile(path, []byte(strings.NewReplacer(append(addresses, "order/42", name)...).Replace(program)), 0o600))
			run := func() (string, error) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				said, err := exec.CommandContext(ctx, interpreter, append(slices.Clone(interpreters[kind].options), path)...).CombinedOutput()
				return string(said), err
			}

			said, err := run()
			if err != nil && strings.Contains(said, "no quorum") { // in time, on a busy machine
				clitest.WaitFor(t, "a quorum answers in time", func() bool {
					said, err = run()
					return !strings.Contains(said, "no quorum")
				})
			}
			require.NoError(t, err, said)
			assert.Contains(t, said, "working")
			var lock *redlock.Lock
			clitest.WaitFor(t, "the release", func() bool { // of a stream: the server notices its end
				var err error
				lock, err = locker.TryLock(t.Context(), name)
				return err == nil
			})
			defer lock.Unlock(context.WithoutCancel(t.Context()))
			said, _ = run() //nolint:errcheck // some exit with a status, others with a text
			assert.NotContains(t, said, "working")
			assert.NotEmpty(t, said, "it says why")
		})
	}
}

func portOf(text string) string { return text[strings.LastIndex(text, ":")+1:] }

// What is shown and packaged is what the command takes.
func TestTheUnitsOfSystemdAndContainersHaveCommandLinesThatAreRight(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/languages.md")
	require.NoError(t, err)
	unit, err := os.ReadFile("../../../../packaging/systemd/redlock-serve.service")
	require.NoError(t, err)
	lines := regexp.MustCompile(`(?:/redlock |\[|^redlock )serve[, ].*`).FindAllString(string(page)+string(unit), -1)
	require.Len(t, lines, 3, "Compose, Kubernetes, systemd")
	for _, line := range lines {
		args := strings.Fields(strings.NewReplacer(",", " ", `"`, "", "]", "", "[", "").Replace(line))
		if args[0] == "/redlock" {
			args = args[1:]
		}
		cmd := NewCommand()
		require.NoError(t, cmd.ParseFlags(args[1:]), line)
		assert.Empty(t, cmd.Flags().Args(), line)
		for _, flag := range []string{"allow-locks", "listen", "redis"} {
			assert.True(t, cmd.Flags().Changed(flag), "%s in %s", flag, line)
		}
	}
}

// A certificate that was renewed is used by the next connection.
func TestProgramsTakeLocksByTLS(t *testing.T) {
	t.Parallel()
	authority, dir := redistest.NewAuthority(t), t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	authority.Issue(time.Hour, cert, key)
	text, err := os.ReadFile(authority.File)
	require.NoError(t, err)
	known := x509.NewCertPool()
	require.True(t, known.AppendCertsFromPEM(text))
	at := redistest.FreeAddr(t)
	start(t, 2, "--demo", "--listen", "127.0.0.1:0", "--allow-locks", "--redis", at, "--redis-cert", cert, "--redis-key", key)

	var serials []string
	for range 2 {
		conn, err := tls.Dial("tcp", at, &tls.Config{RootCAs: known, ServerName: redistest.Host()})
		require.NoError(t, err)
		defer conn.Close()
		serials = append(serials, conn.ConnectionState().PeerCertificates[0].SerialNumber.String())
		_, err = conn.Write([]byte("PING\r\n"))
		require.NoError(t, err)
		line, err := bufio.NewReader(conn).ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, "+PONG\r\n", line)
		authority.Issue(time.Hour, cert, key)
	}
	assert.NotEqual(t, serials[0], serials[1])
	plain, err := net.Dial("tcp", at)
	require.NoError(t, err)
	defer plain.Close()
	_, err = plain.Write([]byte("PING\r\n"))
	require.NoError(t, err)
	line, _ := bufio.NewReader(plain).ReadString('\n') //nolint:errcheck // it may hang up
	assert.NotContains(t, line, "PONG")
}
