//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
)

// language is what clients of doors are written in.
type language struct {
	how     string // as their holds tell it
	command []string
	can     []string // what it must be able to do
}

var languages = []language{
	{"python by HTTP", []string{"python3", "testdata/client.py"}, []string{"-c", ""}},
	{"ruby by RESP", []string{"ruby", "testdata/client.rb"}, []string{"-e", "require 'redis'"}},
	{"php by RESP", []string{"php", "testdata/client.php"}, []string{"-r", "new Redis();"}},
}

// clientsPerLanguage share the names with programs in Go.
const clientsPerLanguage = 2

// serving is a `redlock serve` on one side of the network.
type serving struct {
	*child.Process

	http, redis int // its ports
	args        []string
	busy        bool // a fault has it; guarded by arena.mu
}

// Programs of three languages lock by two servers, each of which extends and releases what the
// other one granted, beside programs in Go. Masters forget, the network fails, and servers are
// killed and stopped.
func TestChaosOfDoors(t *testing.T) {
	if os.Getenv(lengthVariable) == "" {
		t.Skipf("it starts clients in three languages: make prove does, or %s=20s", lengthVariable)
	}
	for _, l := range languages {
		if said, err := exec.CommandContext(t.Context(), l.command[0], l.can...).CombinedOutput(); err != nil {
			require.Empty(t, os.Getenv("CI"), "%s: %v: %s", l.how, err, said)
			t.Skipf("NOT RUN: %s: %v: %s", l.how, err, said)
		}
	}
	length := history.Length(t, lengthVariable, shortRun)
	seed, _ := history.Seed(t)
	t.Logf("REDQUORUM_SEED=%d", seed)
	a := newArena(t, seed)
	a.step = "chaos of the doors on real servers"
	servers := a.startServers(t)
	a.deck = append(a.deck, card{name: "redlock serve killed", aim: aimServer(servers), do: killServer}, card{name: "redlock serve stopped", aim: aimServer(servers), do: stopServer})
	a.began = now()
	a.start(false)
	for i := range clientsPerLanguage * len(languages) {
		a.startDoorClient(languages[i%len(languages)], servers)
	}
	a.awaitClients(t)
	run, over := context.WithTimeout(t.Context(), length)
	defer over()
	a.deal(run)
	pause(t.Context(), time.Second) // all of them work again
	a.end()
	a.checkHealed(t)
	a.verdict(t, length, a.drain(t))
}

// startServers starts a server on each side, and waits until both serve.
func (a *arena) startServers(t *testing.T) (all []*serving) {
	t.Helper()
	program := filepath.Join(a.dir, "redlock")
	said, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/redquorum/redquorum/cmd/redlock").CombinedOutput()
	require.NoError(t, err, "%s", said)
	for side := range sideCount {
		var nodes []string
		for _, n := range a.nodes {
			nodes = append(nodes, n.proxies[side].URL())
		}
		s := &serving{http: freePort(t), redis: freePort(t)}
		s.args = []string{
			program, "serve", "--nodes", strings.Join(nodes, ","), "--max-ttl", maxTTL.String(), "--allow-locks",
			"--listen", fmt.Sprint("127.0.0.1:", s.http), "--redis", fmt.Sprint("127.0.0.1:", s.redis),
		}
		s.start(t)
		all = append(all, s)
	}
	for _, s := range all {
		cluster.Eventually(t, time.Minute, func() string {
			response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", s.http))
			if err != nil {
				return err.Error()
			}
			return strings.TrimPrefix(response.Status, "200 OK") + errorText(response.Body.Close())
		})
	}
	return all
}

func errorText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func (s *serving) start(t *testing.T) {
	t.Helper()
	command := exec.Command(s.args[0], s.args[1:]...)
	command.Stderr = nil // it may tell of masters that are away
	quiet, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer quiet.Close()
	command.Stdout, command.Stderr = quiet, quiet
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt is for the test
	s.Process = child.Start(t, command)
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// startDoorClient starts a client of all servers.
func (a *arena) startDoorClient(l language, servers []*serving) {
	a.mu.Lock()
	defer a.mu.Unlock()
	id := len(a.all) + 1
	var mono, boot unix.Timespec
	assert.NoError(a.t, unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot))
	assert.NoError(a.t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono))
	brief := struct {
		ID          int
		File        string
		Seed        uint64
		Ahead       int64 // our clock, of CLOCK_MONOTONIC
		HTTP, Redis []int
		Names       []string
	}{ID: id, File: filepath.Join(a.dir, fmt.Sprint("client", id)), Seed: (a.seed + uint64(id)) % (1 << 31), Names: mutexes}
	if ahead := boot.Nano() - mono.Nano(); ahead > int64(time.Second) { // else this is how long it takes to read them
		brief.Ahead = ahead
	}
	for _, s := range servers {
		brief.HTTP, brief.Redis = append(brief.HTTP, s.http), append(brief.Redis, s.redis)
	}
	text, err := json.Marshal(brief)
	if err != nil {
		panic(err) // strings and numbers only
	}
	command := exec.Command(l.command[0], append(l.command[1:], string(text))...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &process{Process: child.Start(a.t, command), id: id, file: brief.File, again: func() { a.startDoorClient(l, servers) }}
	a.clients, a.all, a.kinds = append(a.clients, p), append(a.all, p), append(a.kinds, l.how)
}

// aimServer finds a server that no fault has.
func aimServer(servers []*serving) func(*arena, card, *rand.Rand) *fault {
	return func(a *arena, _ card, rng *rand.Rand) *fault {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, i := range rng.Perm(len(servers)) {
			if s := servers[i]; !s.busy {
				s.busy = true
				return &fault{where: fmt.Sprintf("server %d", i), serving: s}
			}
		}
		return nil
	}
}

func killServer(ctx context.Context, f *fault) error {
	if err := f.serving.Kill(); err != nil {
		return err
	}
	pause(ctx, upTo(f.rng, time.Second))
	f.serving.start(f.t)
	return nil
}

func stopServer(ctx context.Context, f *fault) error {
	if err := f.serving.Stop(); err != nil {
		return err
	}
	pause(ctx, 100*time.Millisecond+upTo(f.rng, 2*ttl))
	return f.serving.Continue()
}
