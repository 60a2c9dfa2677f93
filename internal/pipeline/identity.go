package pipeline

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// Identity describes the server that answers at a node's endpoint, as it reported when the
// connection was made.
type Identity struct {
	RunID   string // of the server process; empty if INFO is denied or has none (unidentified)
	Product string // "redis", "valkey" and the like, in lower case; empty if unknown
	Version string // of the product; empty if unknown

	CertEnds    time.Time // when the server's certificate ends; zero without TLS
	OwnCertEnds time.Time // likewise ours; zero if we have none

	// Started is the latest moment at which the server can have started: its uptime before the
	// connection was made. A server's uptime follows its wall clock; a negative one counts as zero.
	// Meaningless if the server is unidentified.
	Started clock.Instant
	// Durable: a restart loses nothing. The server reports that it writes every command to disk
	// before it answers (appendonly yes, appendfsync always, no-appendfsync-on-rewrite no), loads
	// no log without its end (aof-load-truncated no), and loads all of it (Unloaded). False if one
	// of these cannot be seen.
	Durable bool
	// TellsDurable: all could be seen that Durable depends on.
	TellsDurable bool
	// Unloaded is why a restart loads only a part of what scripts wrote: in the server's words,
	// what the default user may not do. Empty if the server loads all, or if that is not known.
	Unloaded string
	// UnknownLoading: whether the server loads all cannot be seen (ACL DRYRUN is denied).
	UnknownLoading bool
	// ReplID is the id of the server's replication history; empty if INFO has none. It changes when
	// a replica becomes a master, and when a master has been without replicas for long.
	ReplID string
	// Promoted: the server was a replica before it was a master (it has a second replication id).
	Promoted bool
	// BacklogTTL is how long after its last replica a master changes its ReplID, and forgets that
	// it was Promoted; 0 means never, or that CONFIG GET is denied.
	BacklogTTL time.Duration
	// Replicated: the server has replicas, or had some recently (it keeps a replication backlog).
	Replicated bool
	// Memory is what the memory key held, read before everything else; nil if the user may not read
	// it.
	Memory *Proof
	// Broke is when the connection before this one ended, whatever server it was to; 0 on first
	// contact.
	Broke clock.Instant
	// Connection counts the connections of the node: a later identity has a larger one.
	Connection uint64
	// Connected is when the connection was made.
	Connected clock.Instant
	// Previous is the run id of the server that answered here before; empty on first contact.
	Previous string
	// LastContact is when the last connection to that server ended.
	LastContact clock.Instant
}

// Identity returns the server that answers at the endpoint, or answered last; false before the
// first connection.
func (n *Node) Identity() (Identity, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.identity, n.met
}

// Observe makes the node call f whenever its state or its identity may have changed, and returns a
// function that ends this. A new identity is announced before any call goes out on its connection.
// f runs on the node's goroutine: it must be quick and must not wait. It may call [Node.Identity]
// and [Node.Stats].
func (n *Node) Observe(f func()) (stop func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := new(byte)
	n.observers[key] = f
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.observers, key)
	}
}

func (n *Node) tellObservers() {
	n.mu.Lock()
	observers := make([]func(), 0, len(n.observers))
	for _, f := range n.observers {
		observers = append(observers, f)
	}
	n.mu.Unlock()
	for _, f := range observers {
		f()
	}
}

// identify makes the server of a new connection the node's, before any call goes out to it.
func (n *Node) identify(c *conn) {
	n.mu.Lock()
	next := c.identity
	if before := n.identity; n.met {
		next.Broke = n.lastContact
		next.Previous, next.LastContact = before.RunID, n.lastContact
		if next.RunID == before.RunID {
			// The same process: its first report counts, because its clock may have been set since.
			next.Started, next.Previous, next.LastContact = before.Started, before.Previous, before.LastContact
		}
	}
	n.connections++
	next.Connection = n.connections
	n.identity, n.met = next, true
	if n.state == Down {
		n.state, n.downErr = Connecting, nil // what the observers send goes out on this connection
	}
	n.mu.Unlock()
	n.tellObservers()
}

// takeServer reads INFO server, and refuses a server that is not a master of its own.
func (c *conn) takeServer(info string, now clock.Instant) error {
	c.identity.RunID = infoField(info, "run_id")
	c.identity.Product, c.identity.Version = productOf(info)
	c.identity.Connected = now
	c.identity.Started = now
	// Redis subtracts two moments that are cut to seconds, so the uptime may be almost a second too
	// long.
	if uptime, err := strconv.ParseInt(infoField(info, "uptime_in_seconds"), 10, 64); err == nil && uptime > 1 {
		c.identity.Started = now.Add(-time.Duration(min(uptime-1, int64(maxUptime/time.Second))) * time.Second)
	}
	// The names of Redis, of Valkey from 8 on, and of Redict.
	for _, field := range []string{"redis_mode", "server_mode", "redict_mode"} {
		switch infoField(info, field) {
		case "cluster":
			return notItsOwn(ErrClusterMode)
		case "sentinel":
			return notItsOwn(ErrSentinelMode)
		}
	}
	return nil
}

func notItsOwn(mode error) error { return fmt.Errorf("%w, not a master of its own", mode) }

// otherProducts report their own version in a field of their own. Their redis_version is the one
// that they imitate.
var otherProducts = []string{"valkey", "redict", "dragonfly", "garnet", "kvrocks"}

// productOf returns what the server is, from INFO server. It becomes a label of metrics, so it is
// UTF-8.
func productOf(info string) (product, version string) {
	info = strings.ToValidUTF8(info, "\uFFFD")
	product, version = strings.ToLower(infoField(info, "server_name")), infoField(info, "redis_version")
	for _, other := range otherProducts {
		if own := infoField(info, other+"_version"); own != "" && (product == "" || product == other) {
			return other, own
		}
	}
	if product == "" && version != "" {
		product = "redis"
	}
	return product, version
}

// maxUptime keeps the arithmetic of instants far from its limits.
const maxUptime = 10 * 365 * 24 * time.Hour

// noReplID is what Redis reports if there is no second replication id.
const noReplID = "0000000000000000000000000000000000000000"

// takeReplication reads INFO replication, and refuses a server that is not a master (a slave, a
// replica, an active-replica of KeyDB): it has no vote of its own. It needs the result of INFO
// server.
func (c *conn) takeReplication(info string) error {
	if c.identity.RunID == "" && c.identity.Product == "dragonfly" {
		// Dragonfly has no run_id. Each of its processes draws its master_replid at random, and
		// never stores it.
		c.identity.RunID = infoField(info, "master_replid")
	}
	c.identity.ReplID = infoField(info, "master_replid")
	second := infoField(info, "master_replid2")
	c.identity.Promoted = second != "" && second != noReplID
	replicas := infoField(info, "connected_slaves")
	c.identity.Replicated = replicas != "" && replicas != "0" || infoField(info, "repl_backlog_active") == "1"
	role, host := infoField(info, "role"), infoField(info, "master_host")
	switch {
	case role == "" || role == "master":
		return nil
	case host == "":
		return fmt.Errorf("%w: its role is %q, not master", ErrReplica, role)
	default:
		return fmt.Errorf("%w of %s:%s, not a master", ErrReplica, host, infoField(info, "master_port"))
	}
}

// takeCluster reads INFO cluster, which is the same in all products.
func takeCluster(info string) error {
	if infoField(info, "cluster_enabled") != "1" {
		return nil
	}
	return notItsOwn(ErrClusterMode)
}

// takeMemoryLimit reads INFO memory. A server without a limit never evicts, whatever its policy.
func takeMemoryLimit(info string) error {
	limit, policy := infoField(info, "maxmemory"), infoField(info, "maxmemory_policy")
	if limit == "" || limit == "0" || policy == "" || policy == "noeviction" {
		return nil
	}
	return fmt.Errorf("%w: its maxmemory-policy is %s, not noeviction", ErrEvicts, policy)
}

// takeBacklog reads CONFIG GET repl-backlog-ttl.
func (c *conn) takeBacklog(reply any) bool {
	pair, ok := reply.([]any)
	if len(pair) == 2 {
		value, _ := pair[1].([]byte)
		if seconds, err := strconv.ParseInt(string(value), 10, 64); err == nil && seconds > 0 {
			c.identity.BacklogTTL = time.Duration(min(seconds, int64(maxUptime/time.Second))) * time.Second
		}
	}
	return ok
}
