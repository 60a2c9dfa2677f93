package scenario_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// fault is a state in which a real server does not grant.
type fault struct {
	name  string
	args  []string // of redis-server
	words string   // a regular expression that the error must match
	// begin puts the server into the state, and returns how to end it. The test ends it at the
	// latest.
	begin     func(t *testing.T, m cluster.Master, name string) (heal func())
	atConnect bool // standing connections do not notice
}

var (
	wrongType = fault{name: "WRONGTYPE", words: `WRONGTYPE`, begin: func(t *testing.T, m cluster.Master, name string) func() {
		t.Helper()
		do(t, m, "RPUSH", name, "an element")
		return func() { do(t, m, "DEL", name) }
	}}
	readOnly = fault{name: "READONLY", words: `(?i)read.?only|replica`, begin: func(t *testing.T, m cluster.Master, _ string) func() {
		t.Helper()
		host, port, err := net.SplitHostPort(redistest.StartOne(t).Addr())
		require.NoError(t, err)
		// It must stay a replica with its own keys. Once synchronized, it would have those of its
		// master.
		do(t, m, "CONFIG", "SET", "masterauth", "wrong")
		do(t, m, "REPLICAOF", host, port)
		return func() { do(t, m, "REPLICAOF", "NO", "ONE") }
	}}
	noAuth = fault{name: "NOAUTH", words: `NOAUTH`, atConnect: true, begin: func(t *testing.T, m cluster.Master, _ string) func() {
		t.Helper()
		do(t, m, "CONFIG", "SET", "requirepass", "secret")
		return func() {}
	}}
	outOfMemory = fault{name: "OOM", words: `OOM`, begin: func(t *testing.T, m cluster.Master, _ string) func() {
		t.Helper()
		do(t, m, "CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1")
		return func() { do(t, m, "CONFIG", "SET", "maxmemory", "0") }
	}}
	busy    = fault{name: "BUSY", args: []string{"--lua-time-limit", "1"}, words: `BUSY`, begin: beginBusy}
	loading = fault{
		name: "LOADING", atConnect: true, words: `LOADING`, begin: beginLoading,
		args: []string{"--key-load-delay", "50000", "--loading-process-events-interval-bytes", "1024"},
	}
)

func do(t *testing.T, m cluster.Master, command string, args ...any) {
	t.Helper()
	_, err := m.Do(command, args...)
	require.NoError(t, err, "%s %v", command, args)
}

// beginBusy runs a script that does not end until it is killed.
func beginBusy(t *testing.T, m cluster.Master, _ string) func() {
	t.Helper()
	do(t, m, "CONFIG", "SET", "lua-time-limit", "1")
	conn, err := redis.Dial("tcp", m.Addr())
	require.NoError(t, err)
	var script sync.WaitGroup
	script.Go(func() {
		_, err := conn.Do("EVAL", "while true do end", 0)
		assert.ErrorContains(t, err, "SCRIPT KILL")
	})
	heal := sync.OnceFunc(func() {
		_, err := m.Do("SCRIPT", "KILL")
		assert.NoError(t, err)
		script.Wait()
		assert.NoError(t, conn.Close())
	})
	t.Cleanup(heal)
	awaitReply(t, m, "BUSY")
	return heal
}

// beginLoading restarts the server with a file that takes about 2 s to load.
func beginLoading(t *testing.T, m cluster.Master, _ string) func() {
	t.Helper()
	for i := range 40 {
		do(t, m, "SET", fmt.Sprint("ballast", i), strings.Repeat(fmt.Sprintf("%08x", i*7919), 500))
	}
	do(t, m, "CONFIG", "SET", "rdbcompression", "no")
	do(t, m, "SAVE")
	must(t, m.Kill())
	var restart sync.WaitGroup
	restart.Go(func() { assert.NoError(t, m.Restart()) })
	t.Cleanup(restart.Wait)
	awaitReply(t, m, "LOADING")
	return restart.Wait
}

func awaitReply(t *testing.T, m cluster.Master, code string) {
	t.Helper()
	cluster.Eventually(t, 10*time.Second, func() string {
		if _, err := m.Do("PING"); err == nil || !strings.HasPrefix(err.Error(), code) {
			return fmt.Sprintf("%s answers %v", m.Addr(), err)
		}
		return ""
	})
}
