package resp

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/redquorum/redquorum/cmd/redlock/internal/lease"
)

// conn is the connection of one client. Only the goroutine that serves it uses it.
type conn struct {
	server *Server
	ctx    context.Context //nolint:containedctx // of the connection, which is no call
	id     int64
	from   string
	in     *reader
	out    *server.Peer
	left   bool // it ends after this command

	name string // CLIENT SETNAME

	// mine is what this connection was granted or has read last of each key: a plain DEL and
	// EXPIRE mean these.
	mine map[string]lease.Ref

	watched  map[string]lease.Ref // by WATCH; a key without a lease has the zero Ref
	queued   [][]string           // by MULTI; nil outside
	promised []promise            // by the transaction that is being run
	dirty    bool                 // a command could not be queued
	within   bool                 // a transaction is being run

	// unsent are grants of the last command, whose reply has not been sent whole. What a client has
	// read stays its own when its connection breaks.
	unsent []lease.Grant
}

// Bounds on what a connection makes a server remember. A client that locks uses a few keys at once.
const (
	mostMine    = 1024
	mostWatched = 64
	mostQueued  = 64
)

// reset is RESET, and the beginning.
func (c *conn) reset() {
	c.mine, c.name, c.out.Resp3 = map[string]lease.Ref{}, "", false
	c.in.known = c.server.config.Login == nil
	c.endTransaction()
}

// giveBack releases what was granted to a client that left without having heard of it.
func (c *conn) giveBack() {
	for _, g := range c.unsent {
		c.server.config.Leases.GiveBack(g)
	}
	c.unsent = nil
}

// remember notes what the connection has, or has read, of a key.
func (c *conn) remember(key string, ref lease.Ref) {
	for other := range c.mine { // any
		if len(c.mine) < mostMine {
			break
		}
		delete(c.mine, other)
	}
	c.mine[key] = ref
}

// fail replies an error.
func (c *conn) fail(text string) {
	c.out.WriteError(strings.NewReplacer("\r", " ", "\n", " ").Replace(text))
}

func (c *conn) failf(format string, args ...any) { c.fail(fmt.Sprintf(format, args...)) }

// command is a command that the door knows. Its arguments do not count its name.
type command struct {
	least, most int // arguments; most of -1 is any number
	run         func(c *conn, args []string)
	open        bool // before a login, too
	unqueued    bool // run at once within MULTI
}

// commands are all of them. It is filled by init, because EXEC runs what is in it.
var commands map[string]command

func init() {
	commands = map[string]command{
		"SET": {2, 9, (*conn).set, false, false}, "SETNX": {2, 2, (*conn).setNX, false, false},
		"SETEX": {3, 3, (*conn).setEX, false, false}, "PSETEX": {3, 3, (*conn).setEX, false, false},
		"GET": {1, 1, (*conn).get, false, false}, "MGET": {1, mostQueued, (*conn).mget, false, false},
		"EXISTS": {1, mostQueued, (*conn).exists, false, false}, "TYPE": {1, 1, (*conn).kind, false, false},
		"TTL": {1, 1, (*conn).ttl, false, false}, "PTTL": {1, 1, (*conn).ttl, false, false},
		"EXPIRE": {2, 3, (*conn).expire, false, false}, "PEXPIRE": {2, 3, (*conn).expire, false, false},
		"EXPIREAT": {2, 3, (*conn).expire, false, false}, "PEXPIREAT": {2, 3, (*conn).expire, false, false},
		"DEL": {1, mostQueued, (*conn).del, false, false}, "UNLINK": {1, mostQueued, (*conn).del, false, false},
		"DELEX": {1, 3, (*conn).delIf, false, false}, "DELIFEQ": {2, 2, (*conn).delIf, false, false},

		"EVAL": {2, -1, (*conn).eval, false, false}, "EVALSHA": {2, -1, (*conn).evalSHA, false, false},
		"EVAL_RO": {2, -1, (*conn).eval, false, false}, "EVALSHA_RO": {2, -1, (*conn).evalSHA, false, false},
		"SCRIPT": {1, -1, (*conn).script, false, false},

		"WATCH": {1, mostWatched, (*conn).watch, false, true}, "UNWATCH": {0, 0, (*conn).unwatch, false, false},
		"MULTI": {0, 0, (*conn).multi, false, true}, "EXEC": {0, 0, (*conn).exec, false, true},
		"DISCARD": {0, 0, (*conn).discard, false, true},

		"HELLO": {0, 6, (*conn).hello, true, true}, "AUTH": {1, 2, (*conn).auth, true, true},
		"QUIT": {0, 0, (*conn).quit, true, true}, "RESET": {0, 0, (*conn).resets, true, true},
		"PING": {0, 1, (*conn).ping, false, false}, "ECHO": {1, 1, (*conn).ping, false, false},
		"SELECT": {1, 1, (*conn).selects, false, false}, "CLIENT": {1, -1, (*conn).client, false, false},
		"INFO": {0, -1, (*conn).info, false, false}, "COMMAND": {0, -1, (*conn).command, false, false},
		"ROLE": {0, 0, (*conn).role, false, false}, "TIME": {0, 0, (*conn).time, false, false},
		"READONLY": {0, 0, (*conn).ok, false, false}, "READWRITE": {0, 0, (*conn).ok, false, false},
	}
}

// do runs one command.
func (c *conn) do(args []string) {
	name := strings.ToUpper(args[0])
	cmd, known := commands[name]
	switch {
	case name == "POST", name == "HOST:": // a browser, which a page had send commands in a form
		c.left = true
		return
	case !c.in.known && !cmd.open:
		c.fail("NOAUTH Authentication required.")
		return
	case !known:
		c.dirty = c.queued != nil
		c.failf("ERR unknown command %.40q: %s", args[0], whatThisIs)
		return
	case len(args)-1 < cmd.least, cmd.most >= 0 && len(args)-1 > cmd.most:
		c.dirty = c.queued != nil
		c.failf("ERR wrong number of arguments for '%s' command", strings.ToLower(name))
		return
	case c.queued != nil && !cmd.unqueued:
		c.queue(args)
		return
	}
	args[0] = name // commands that share a function ask which one it is
	cmd.run(c, args)
}

// whatThisIs is for those who take the door for a Redis.
const whatThisIs = "this is redlock serve, which has locks of a quorum of masters, and no data. " +
	"It knows SET key token NX PX milliseconds, SETNX, GET, EXISTS, TTL, EXPIRE, DEL, scripts that compare and delete or extend, " +
	"and WATCH, MULTI, EXEC (docs/languages.md)"

func (c *conn) ok([]string)           { c.out.WriteOK() }
func (c *conn) quit([]string)         { c.left = true; c.out.WriteOK() }
func (c *conn) resets([]string)       { c.reset(); c.out.WriteInline("RESET") }
func (c *conn) command(args []string) { c.empty(len(args) > 1 && strings.EqualFold(args[1], "DOCS")) }

// empty replies a list or a map without entries; COMMAND COUNT and the like are nobody's need here.
func (c *conn) empty(isMap bool) {
	if isMap {
		c.out.WriteMapLen(0)
		return
	}
	c.out.WriteLen(0)
}

func (c *conn) ping(args []string) {
	if len(args) > 1 {
		c.out.WriteBulk(args[1])
		return
	}
	c.out.WriteInline("PONG")
}

func (c *conn) selects(args []string) {
	if args[1] != "0" {
		c.fail("ERR DB index is out of range: the masters of this server have one database of locks")
		return
	}
	c.out.WriteOK()
}

func (c *conn) role([]string) {
	c.out.WriteLen(3)
	c.out.WriteBulk("master")
	c.out.WriteInt(0)
	c.out.WriteLen(0)
}

func (c *conn) time([]string) {
	now := c.server.config.Clock.Wall()
	c.out.WriteStrings([]string{strconv.FormatInt(now.Unix(), 10), strconv.Itoa(now.Nanosecond() / 1000)})
}

// pretended is the version of Redis that clients are told, by which they choose what they send.
const pretended = "7.2.0"

func (c *conn) info([]string) {
	c.out.WriteBulk("# Server\r\nredis_version:" + pretended + "\r\nredis_mode:standalone\r\nserver_name:redlock\r\n" +
		"# Persistence\r\nloading:0\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n# Cluster\r\ncluster_enabled:0\r\n")
}

func (c *conn) client(args []string) {
	switch sub := strings.ToUpper(args[1]); {
	case sub == "SETNAME" && len(args) == 3:
		c.name = args[2]
		c.out.WriteOK()
	case sub == "GETNAME":
		c.out.WriteBulk(c.name)
	case sub == "ID":
		c.out.WriteInt(int(c.id))
	case sub == "SETINFO", sub == "NO-EVICT", sub == "NO-TOUCH", sub == "TRACKING" && len(args) == 3 && strings.EqualFold(args[2], "OFF"):
		c.out.WriteOK()
	default:
		c.failf("ERR unknown subcommand %.40q of CLIENT: %s", args[1], whatThisIs)
	}
}

// hello is HELLO [version [AUTH user password] [SETNAME name]].
func (c *conn) hello(args []string) {
	resp3, name := c.out.Resp3, c.name
	if len(args) > 1 {
		if args[1] != "2" && args[1] != "3" {
			c.fail("NOPROTO unsupported protocol version")
			return
		}
		resp3 = args[1] == "3"
	}
	for rest := args[min(len(args), 2):]; len(rest) > 0; {
		switch option := strings.ToUpper(rest[0]); {
		case option == "AUTH" && len(rest) >= 3:
			if !c.login(rest[1], rest[2]) {
				return
			}
			rest = rest[3:]
		case option == "SETNAME" && len(rest) >= 2:
			name, rest = rest[1], rest[2:]
		default:
			c.fail("ERR syntax error in HELLO")
			return
		}
	}
	if !c.in.known {
		c.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used")
		return
	}
	c.out.Resp3, c.name = resp3, name
	c.out.WriteMapLen(7)
	for _, pair := range [][2]string{{"server", "redis"}, {"version", pretended}, {"mode", "standalone"}, {"role", "master"}} {
		c.out.WriteBulk(pair[0])
		c.out.WriteBulk(pair[1])
	}
	c.out.WriteBulk("proto")
	c.out.WriteInt(map[bool]int{false: 2, true: 3}[resp3])
	c.out.WriteBulk("id")
	c.out.WriteInt(int(c.id))
	c.out.WriteBulk("modules")
	c.out.WriteLen(0)
}

func (c *conn) auth(args []string) {
	user := "default"
	if len(args) == 3 {
		user = args[1]
	}
	if c.login(user, args[len(args)-1]) {
		c.out.WriteOK()
	}
}

// login reports whether the client may use the door, and replies an error if not.
func (c *conn) login(user, password string) bool {
	switch login := c.server.config.Login; {
	case login == nil:
		c.fail("ERR AUTH called, but no password is needed here. Are you sure your configuration is correct?")
	case !login(c.ctx, user, password):
		c.in.known = false
		c.fail("WRONGPASS invalid username-password pair or user is disabled.")
	default:
		c.in.known = true
		return true
	}
	return false
}
