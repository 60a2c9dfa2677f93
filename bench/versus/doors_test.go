package versus

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/bench/load"
	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// startDoors starts `redlock serve` as a process of its own.
func startDoors(tb testing.TB, servers []*redistest.Server) (process *child.Process, http, redis string) {
	tb.Helper()
	program := filepath.Join(tb.TempDir(), "redlock")
	build := exec.CommandContext(tb.Context(), "go", "build", "-o", program, "./cmd/redlock")
	build.Dir = "../.."
	said, err := build.CombinedOutput()
	require.NoError(tb, err, "%s", said)
	urls := []string{}
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	ports := []string{}
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(tb, err)
		ports = append(ports, l.Addr().String())
		require.NoError(tb, l.Close())
	}
	command := exec.Command(program, "serve", "--nodes", strings.Join(urls, ","), "--allow-locks", "--listen", ports[0], "--redis", ports[1])
	process = child.Start(tb, command)
	require.Eventually(tb, func() bool {
		status, err := post(tb.Context(), &httpClient, http1(ports[0]), `{"name":"ready","token":"t","ttl":"1s"}`)
		return err == nil && status == 201
	}, time.Minute, 20*time.Millisecond)
	return process, http1(ports[0]), ports[1]
}

func http1(address string) string { return "http://" + address + "/api/v1/lease" }

var httpClient = http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096}}

func post(ctx context.Context, client *http.Client, url, body string) (int, error) {
	return ask(ctx, client, http.MethodPost, url, body)
}

func ask(ctx context.Context, client *http.Client, method, url, body string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, cmp.Or(err, response.Body.Close())
}

var compareAndDelete = redis.NewScript(1, `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`)

// byRedis locks and unlocks as programs do on one Redis.
func byRedis(address string) func(ctx context.Context, first, count int) error {
	pool := &redis.Pool{MaxIdle: 4096, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", address) }}
	return func(_ context.Context, n, _ int) error {
		conn := pool.Get()
		defer conn.Close()
		key := fmt.Sprint("doors/", n)
		if ok, err := redis.String(conn.Do("SET", key, "token", "NX", "PX", 10_000)); err != nil || ok != "OK" {
			return fmt.Errorf("SET: %q, %w", ok, err)
		}
		if n, err := redis.Int(compareAndDelete.Do(conn, key, "token")); err != nil || n != 1 {
			return fmt.Errorf("release: %d, %w", n, err)
		}
		return nil
	}
}

func byHTTP(url string) func(ctx context.Context, first, count int) error {
	return func(ctx context.Context, n, _ int) error {
		lease := fmt.Sprintf(`{"name":"doors/%d","token":"token"`, n)
		if status, err := post(ctx, &httpClient, url, lease+`,"ttl":"10s"}`); err != nil || status != 201 {
			return fmt.Errorf("POST: %d, %w", status, err)
		}
		if status, err := ask(ctx, &httpClient, http.MethodDelete, url, lease+"}"); err != nil || status != 204 {
			return fmt.Errorf("DELETE: %d, %w", status, err)
		}
		return nil
	}
}

// BenchmarkDoors locks and unlocks through the doors of `redlock serve`, over three masters, beside
// the same client on one plain redis-server.
func BenchmarkDoors(b *testing.B) {
	servers := redistest.Start(b, 4)
	_, http, resp := startDoors(b, servers[:3])
	for _, clients := range []int{1, 64} {
		for _, way := range []struct {
			name string
			do   func(ctx context.Context, first, count int) error
		}{{"one-redis-server", byRedis(servers[3].Addr())}, {"redis", byRedis(resp)}, {"http", byHTTP(http)}} {
			b.Run(fmt.Sprintf("way=%s/clients=%d", way.name, clients), func(b *testing.B) {
				l := load.Load{Goroutines: clients, Operations: b.N, Timed: b, Do: way.do}
				s, err := l.Measure(b.Context())
				require.NoError(b, err)
				s.Report(b)
			})
		}
	}
}

// BenchmarkCrowdOfDoors tells what a server takes for connections that do nothing, and for a fifth
// as many requests that wait, and what a master sees of them.
func BenchmarkCrowdOfDoors(b *testing.B) {
	crowd, names := sized(10_000, 100), 100
	servers := redistest.Start(b, 3)
	process, url, resp := startDoors(b, servers)
	before := memory(b, process.Pid())
	for range crowd {
		conn, err := redis.Dial("tcp", resp)
		require.NoError(b, err)
		b.Cleanup(func() { _ = conn.Close() })
		_, err = conn.Do("PING")
		require.NoError(b, err)
	}
	idle := memory(b, process.Pid())

	locker, err := newLocker(contention.AddressesOf(servers))
	require.NoError(b, err)
	defer locker.Close()
	for i := range names {
		_, err := locker.TryLock(b.Context(), fmt.Sprint("crowd/", i))
		require.NoError(b, err)
	}
	ctx, hangUp := context.WithCancel(b.Context())
	var all sync.WaitGroup
	for i := range crowd / 5 {
		all.Go(func() {
			_, _ = post(ctx, &httpClient, url, fmt.Sprintf(`{"name":"crowd/%d","wait":"10m"}`, i%names)) //nolint:errcheck // hung up
		})
	}
	defer all.Wait()
	defer hangUp()
	require.Eventually(b, func() bool { return metric(b, url, "leases_waiting") == crowd/5 }, time.Minute, 100*time.Millisecond)
	const executed = "total_commands_processed:"
	window, began := sized(5*time.Second, 100*time.Millisecond), info(b, servers[0], executed)
	time.Sleep(window)
	b.ReportMetric(float64(info(b, servers[0], executed)-began)/window.Seconds(), "commands/s")
	b.ReportMetric(float64(info(b, servers[0], "connected_clients:")), "connections")
	b.ReportMetric(float64(idle-before)/float64(crowd), "kB/connection")
	b.ReportMetric(float64(memory(b, process.Pid())-idle)/float64(crowd/5), "kB/request")
	b.ReportMetric(0, "ns/op")
}

// memory returns the resident memory of a process, in kB.
func memory(t testing.TB, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	return after(t, text, "VmRSS:")
}

func metric(t testing.TB, url, name string) int {
	t.Helper()
	response, err := http.Get(strings.Replace(url, "/api/v1/lease", "/metrics", 1))
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return after(t, text, "redquorum_serve_"+name+`{door="http"}`)
}

func info(t testing.TB, s *redistest.Server, what string) int {
	t.Helper()
	text, err := redis.Bytes(s.Do("INFO"))
	require.NoError(t, err)
	return after(t, text, what)
}

// after returns the number behind a word.
func after(t testing.TB, text []byte, word string) int {
	t.Helper()
	_, rest, found := bytes.Cut(text, []byte(word))
	require.True(t, found, word)
	n, err := strconv.Atoi(string(bytes.Fields(rest)[0]))
	require.NoError(t, err)
	return n
}
