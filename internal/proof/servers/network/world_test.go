package network_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// wanted is the environment variable by which `make networks` asks for these tests.
const wanted = "REDQUORUM_NETWORKS"

func TestMain(m *testing.M) { cluster.Main(m) }

// world is masters in a network namespace each, with a link to ours. Its clients are in ours, and
// have an address each, by which the masters' packet filters tell them apart from the test, whose
// own look at a master always passes.
type world struct {
	*cluster.Cluster
	hosts []*host
	moved atomic.Pointer[string] // the address that the name now stands for
}

// name is looked up at each dial, and may move to another address.
const name = "moves.test:6379"

// host is the namespace of a master. Its name is also that of our end of the link.
type host struct {
	name    string
	network net.IP // of 16 addresses: .1 is ours, .2 the master's, .10 and up the clients'
	master  cluster.Master
}

// clients is how many clients a world has.
const clients = 2

// requireNamespaces skips the test unless it was asked for, and otherwise fails it where it
// cannot run.
func requireNamespaces(t *testing.T) {
	t.Helper()
	if os.Getenv(wanted) == "" {
		t.Skip("it makes network namespaces: `make networks` runs it, as root")
	}
	require.Zero(t, os.Geteuid(), "only root may make network namespaces")
}

// lastHost counts up from anywhere, so that two runs beside each other have other networks.
var lastHost atomic.Uint32

func init() { lastHost.Store(rand.Uint32()) }

// newWorld starts masters that vote.
func newWorld(t *testing.T, masters int, opts ...redistest.Option) *world {
	t.Helper()
	requireNamespaces(t)
	w := &world{Cluster: &cluster.Cluster{}}
	for range masters {
		w.add(t, opts...)
	}
	w.Meet(t)
	require.False(t, t.Failed())
	return w
}

// add starts one master more.
func (w *world) add(t *testing.T, opts ...redistest.Option) *host {
	t.Helper()
	number := lastHost.Add(1) % (1 << 13)
	// 198.18.0.0/15 is for tests of networks (RFC 2544): nothing else has addresses there.
	h := &host{name: fmt.Sprintf("redquorum%d", number), network: net.IPv4(198, byte(18+number>>12), byte(number>>4), byte(number<<4)).To4()}
	run(t, "", "ip", "netns", "add", h.name)
	t.Cleanup(func() { run(t, "", "ip", "netns", "del", h.name) })
	run(t, "", "ip", "link", "add", h.name, "type", "veth", "peer", "name", "eth0", "netns", h.name)
	for _, last := range append([]int{1}, clientAddresses()...) {
		run(t, "", "ip", "addr", "add", h.address(last)+"/28", "dev", h.name)
	}
	run(t, "", "ip", "link", "set", h.name, "up")
	run(t, "", "ip", "-n", h.name, "addr", "add", h.address(2)+"/28", "dev", "eth0")
	h.link(t, "up")
	h.filter(t, `table inet faults {
		chain requests { type filter hook input priority 0; }
		chain replies { type filter hook output priority 0; }
	}`)
	h.master = redistest.StartOne(t, append(opts, redistest.WithNamespace(h.name, h.address(2)))...)
	w.hosts, w.Masters = append(w.hosts, h), append(w.Masters, h.master)
	return h
}

func clientAddresses() (last []int) {
	for client := range clients {
		last = append(last, 10+client)
	}
	return last
}

// address returns an address of the host's network.
func (h *host) address(last int) string {
	return net.IPv4(h.network[0], h.network[1], h.network[2], h.network[3]+byte(last)).String()
}

// link takes the master's end of its link up or down: nobody is told, and nothing is sent any more.
func (h *host) link(t *testing.T, state string) {
	t.Helper()
	run(t, "", "ip", "-n", h.name, "link", "set", "eth0", state)
}

// filter runs commands of nft in the namespace.
func (h *host) filter(t *testing.T, commands string) {
	t.Helper()
	run(t, commands, "ip", "netns", "exec", h.name, "nft", "-f", "-")
}

// fault does something to the packets between a client and the master.
type fault struct {
	name              string
	requests, replies string // what becomes of them; empty: they pass
}

// begin makes the master's network do that to these clients.
func (h *host) begin(t *testing.T, f fault, clients ...int) {
	t.Helper()
	for _, client := range clients {
		if f.requests != "" {
			h.filter(t, fmt.Sprintf("add rule inet faults requests ip saddr %s %s", h.address(10+client), f.requests))
		}
		if f.replies != "" {
			h.filter(t, fmt.Sprintf("add rule inet faults replies ip daddr %s %s", h.address(10+client), f.replies))
		}
	}
}

// heal ends all faults of the master's network.
func (h *host) heal(t *testing.T) {
	t.Helper()
	h.filter(t, "flush table inet faults")
}

// client returns options of a Locker that dials from a client's addresses.
func (w *world) client(number int, opts ...redlock.Option) []redlock.Option {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == name {
			address = *w.moved.Load()
		}
		remote, err := net.ResolveTCPAddr(network, address)
		if err != nil {
			return nil, err
		}
		local := net.IP(append([]byte(nil), remote.IP.To4()...))
		local[3] = local[3]&^15 + byte(10+number)
		return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: local}}).DialContext(ctx, network, address)
	}
	return append([]redlock.Option{redlock.WithPool(pool.WithDialer(dial)), redlock.WithTTL(ttl), redlock.WithMaxTTL(2 * ttl)}, opts...)
}

// ttl is short, so that a lock that nobody renews is soon lost.
const ttl = 3 * time.Second

// run runs a program that must succeed.
func run(t *testing.T, input, program string, args ...string) {
	t.Helper()
	command := exec.Command(program, args...)
	command.Stdin = strings.NewReader(input)
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s %v: %s", program, args, output)
}
