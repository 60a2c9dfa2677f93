package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// phpRecipe is a program of docs/recipes.md, behind a mark with the name of its file.
var phpRecipe = regexp.MustCompile("(?s)<!-- runs: (\\w+\\.php) -->\n```php\n(.*?)```\n")

// shop is what the programs of the recipes work with: masters, and a Redis and a database of their
// own.
type shop struct {
	*testing.T
	urls  []string
	store *redistest.Server
	dir   string // has the programs, and the database
}

func openShop(t *testing.T) *shop {
	t.Helper()
	t.Parallel()
	if text, err := exec.CommandContext(t.Context(), "php", "-r", "new Redis(); new PDO('sqlite::memory:');").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("the recipes in PHP cannot run, and CI=true: %v: %s", err, text)
		}
		t.Skipf("NOT RUN: the recipes in PHP: install php-cli, php-redis and php-sqlite3 (%v)", err)
	}
	s := &shop{t, cluster.Start(t, 3).URLs(), redistest.StartOne(t), t.TempDir()}
	clitest.Admit(t, s.urls...)
	page, err := os.ReadFile("../../docs/recipes.md")
	require.NoError(t, err)
	host, port, err := net.SplitHostPort(s.store.Addr())
	require.NoError(t, err)
	programs := phpRecipe.FindAllStringSubmatch(string(page), -1)
	require.Len(t, programs, 4)
	for _, program := range programs {
		text := strings.NewReplacer("pgsql:host=127.0.0.1;dbname=shop", "sqlite:"+filepath.Join(s.dir, "shop"), "127.0.0.1", host, "6379", port,
			"// here the price is worked out", `echo "read\n"; fgets(STDIN);`, // where a test stops the seller
			"exit(1);", `echo "refused\n"; exit(1);`,
		).Replace(program[2])
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, program[1]), []byte(text), 0o600))
	}
	return s
}

func (s *shop) do(command string, args ...any) any {
	s.Helper()
	answer, err := s.store.Do(command, args...)
	require.NoError(s, err)
	return answer
}

func (s *shop) text(command string, args ...any) string {
	s.Helper()
	text, err := redis.String(s.do(command, args...), nil)
	require.NoError(s, err)
	return text
}

// sql has PHP do something with the database, and returns what it prints.
func (s *shop) sql(code string) string {
	s.Helper()
	out, err := exec.CommandContext(s.Context(), "php", "-r", `$db = new PDO($argv[1]); `+code, "--", "sqlite:"+filepath.Join(s.dir, "shop")).CombinedOutput()
	require.NoError(s, err, string(out))
	return string(out)
}

func TestOrdersThatNobodyPaysAreCancelledByPHP(t *testing.T) {
	s := openShop(t)
	for id, state := range map[string]string{"1": "unpaid", "2": "paid", "3": "unpaid"} {
		s.do("HSET", "order:"+id, "state", state)
		var said bytes.Buffer
		place := exec.CommandContext(t.Context(), "php", filepath.Join(s.dir, "place.php"), id)
		place.Stderr = &said
		require.NoError(t, place.Run(), said.String())
		s.do("ZINCRBY", "Queue:orders", -30*60, id) // as if half an hour had passed
	}
	s.do("SET", "order:4", "no order")
	s.do("ZADD", "Queue:orders", 1, "4")
	args := []string{
		"queue", "run", "orders", "--store", s.store.URL(), "--max-attempts", "2", "--backoff", "1ms", "--",
		"php", filepath.Join(s.dir, "cancel.php"),
	}
	workers := []*clitest.Redlock{clitest.Start(t, s.urls, args...), clitest.Start(t, s.urls, args...)}
	clitest.WaitFor(t, "the queue is empty", func() bool { return s.do("ZCARD", "Queue:orders") == int64(0) })
	for _, worker := range workers {
		require.NoError(t, syscall.Kill(worker.Pid(), syscall.SIGTERM))
		status, stderr := worker.End(t)
		assert.Zero(t, status, stderr)
	}
	for id, state := range map[string]string{"1": "cancelled", "2": "paid", "3": "cancelled"} {
		assert.Equal(t, state, s.text("HGET", "order:"+id, "state"), id)
	}
	_, stdout, _ := clitest.Run(t, s.urls, "queue", "list", "orders", "--store", s.store.URL())
	assert.Regexp(t, `(?m)^4 +\S+ +2 +exit status 1: WRONGTYPE`, stdout)
}

// A seller is stopped in the middle of its write, for longer than its lock: the last piece goes to
// the next one, and is not sold again.
func TestAStockIsNeverOversoldByASellerInPHPThatWasStopped(t *testing.T) {
	s := openShop(t)
	s.sql(`$db->exec('CREATE TABLE stock (item TEXT PRIMARY KEY, pieces BIGINT NOT NULL, fence BIGINT NOT NULL DEFAULT 1)');
		$db->exec("INSERT INTO stock VALUES ('shoe', 1, 1)");`)
	args := []string{"run", "--name", "stock/shoe", "--fence", "--ttl", "2s", "--", "php", filepath.Join(s.dir, "sell.php"), "shoe"}
	late := clitest.Start(t, s.urls, args...)
	require.Equal(t, "read", late.Next(t))
	require.NoError(t, late.Stop()) // redlock; PHP waits for a line
	next := clitest.Start(t, s.urls, args...)
	require.Equal(t, "read", next.Next(t))
	require.NoError(t, next.Tell("go on"))
	require.Equal(t, "sold", next.Next(t))
	status, stderr := next.End(t)
	assert.Zero(t, status, stderr)

	require.NoError(t, late.Tell("go on")) // it writes late
	require.Equal(t, "refused", late.Next(t))
	require.NoError(t, late.Continue())
	status, stderr = late.End(t)
	assert.NotZero(t, status)
	assert.Contains(t, stderr, "a later seller has been here")
	assert.Equal(t, "0", s.sql(`echo $db->query('SELECT pieces FROM stock')->fetchColumn();`))

	third := clitest.Start(t, s.urls, args...)
	status, _ = third.End(t)
	assert.Equal(t, 3, status, "sold out")
}

func TestAReportIsMadeOnceADayByPHP(t *testing.T) {
	s := openShop(t)
	args := []string{
		"run", "--name", "report", "--no-wait", "--conflict-exit-code", "0", "--", "php", filepath.Join(s.dir, "report.php"),
	}
	made := 0
	for range 2 {
		var all []*clitest.Redlock
		for range 3 {
			all = append(all, clitest.Start(t, s.urls, args...))
		}
		for _, one := range all {
			for line := range one.Lines() {
				assert.Contains(t, line, "made")
				made++
			}
			status, stderr := one.End(t)
			assert.Zero(t, status, stderr)
		}
	}
	assert.Equal(t, 1, made)
}
