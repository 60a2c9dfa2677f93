package fakeredis

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// command is a row of the command table.
type command struct {
	name     string // in lower case
	arity    int    // number of arguments, the name included; negative: at least that many
	run      func(n *Node, s *session, args []string) reply
	noScript bool // refused in a script
	writes   bool // refused by a replica
	of       kind // of value that the key, the first argument, may have; anyValue: run looks itself
}

// table maps names to commands, in lower and in upper case, so that the usual spellings need no
// conversion.
var table map[string]*command

func init() { // not a literal: EVAL refers back to the table
	table = make(map[string]*command)
	for _, group := range [][]command{
		keyCommands(), sortedSetCommands(), hashCommands(), connectionCommands(), serverCommands(),
		pubsubCommands(), scriptCommands(),
	} {
		for _, c := range group {
			table[c.name] = &c
			table[strings.ToUpper(c.name)] = &c
		}
	}
}

func findCommand(name string) *command {
	if c := table[name]; c != nil {
		return c
	}
	return table[strings.ToLower(name)]
}

func (c *command) accepts(args []string) bool {
	return len(args) == c.arity || (c.arity < 0 && len(args) >= -c.arity)
}

// executeLocked runs a command that a client sent. It makes the checks of Redis, in Redis's order.
func (n *Node) executeLocked(s *session, args []string) reply {
	n.now = n.wall.micros()
	c := findCommand(args[0])
	switch {
	case n.rules.refuseAll != "":
		return failure(n.rules.refuseAll)
	case c == nil:
		return unknownCommand(args)
	case !c.accepts(args):
		return wrongArity(c.name)
	case n.rules.refuse[c.name] != "":
		return failure(n.rules.refuse[c.name])
	case s.subscriptions() > 0 && !allowedSubscribed[c.name]:
		return failure("ERR Can't execute '" + strings.ToLower(args[0]) + "': only (P|S)SUBSCRIBE / " +
			"(P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
	case c.writes && n.process.replication.replica:
		return readOnly
	}
	return c.runLocked(n, s, args)
}

// callLocked runs a command that a script calls.
func (n *Node) callLocked(s *session, args []string) reply {
	c := findCommand(args[0])
	if text := n.rules.calls.next(); text != "" {
		return failure(text)
	}
	switch {
	case c == nil:
		return failure("ERR Unknown Redis command called from script")
	case !c.accepts(args):
		return failure("ERR Wrong number of args calling Redis command from script")
	case c.noScript:
		return failure("ERR This Redis command is not allowed from script")
	case n.rules.refuse[c.name] != "":
		return failure(n.rules.refuse[c.name])
	case c.writes && n.process.replication.replica:
		return readOnly
	}
	return c.runLocked(n, s, args)
}

// runLocked runs a command that may run, on a key that may be of the wrong type.
func (c *command) runLocked(n *Node, s *session, args []string) reply {
	if c.of != anyValue {
		if e := n.lookup(s.db, args[1]); e != nil && e.kind() != c.of {
			return wrongType
		}
	}
	return c.run(n, s, args)
}

func unknownCommand(args []string) reply {
	var text strings.Builder
	text.WriteString("ERR unknown command '" + args[0] + "', with args beginning with: ")
	for _, arg := range args[1:] {
		text.WriteString("'" + arg + "' ")
	}
	return oneLine(text.String())
}

func wrongArity(name string) reply {
	return failure("ERR wrong number of arguments for '" + name + "' command")
}

// unsupported is the error for something that Redis can do and this fake cannot.
func unsupported(what string) reply {
	return oneLine("ERR fake does not implement " + what)
}

// oneLine is a failure whose text may come from a client: it has no line breaks.
func oneLine(text string) reply { return failure(lineBreaks.Replace(text)) }

var lineBreaks = strings.NewReplacer("\r", " ", "\n", " ")

func connectionCommands() []command {
	return []command{
		{name: "ping", arity: -1, run: ping},
		{name: "echo", arity: 2, run: func(_ *Node, _ *session, args []string) reply { return bulk(args[1]) }},
		{name: "auth", arity: -2, run: auth, noScript: true},
		{name: "select", arity: 2, run: selectDatabase},
		{name: "client", arity: -2, run: client, noScript: true},
	}
}

func ping(_ *Node, s *session, args []string) reply {
	switch {
	case len(args) > 2:
		return wrongArity("ping")
	case s.subscriptions() > 0:
		return bulks("pong", strings.Join(args[1:], ""))
	case len(args) == 2:
		return bulk(args[1])
	}
	return status("PONG")
}

// auth serves AUTH as a server without passwords does: the user default needs none.
func auth(_ *Node, _ *session, args []string) reply {
	switch {
	case len(args) == 2:
		return failure("ERR AUTH <password> called without any password configured for the default user. " +
			"Are you sure your configuration is correct?")
	case len(args) > 3:
		return syntax
	case args[1] != "default":
		return failure("WRONGPASS invalid username-password pair or user is disabled.")
	}
	return replyOK
}

func selectDatabase(_ *Node, s *session, args []string) reply {
	index, ok := parseInt(args[1])
	switch {
	case !ok:
		return notInteger
	case index < 0 || index >= databases:
		return failure("ERR DB index is out of range")
	}
	s.db = int(index)
	return replyOK
}

// client serves CLIENT ID, SETNAME and KILL ID.
func client(n *Node, s *session, args []string) reply {
	switch sub := strings.ToLower(args[1]); {
	case sub == "id" && len(args) == 2:
		return integer(s.id)
	case sub == "setname" && len(args) == 3:
		return replyOK
	case sub == "kill" && len(args) == 4 && strings.EqualFold(args[2], "id"):
		return n.killClient(s, args[3])
	case sub == "id", sub == "setname":
		return wrongArity("client|" + sub)
	}
	return unsupported(strings.Join(args[:min(len(args), 3)], " "))
}

// killClient serves CLIENT KILL ID number.
func (n *Node) killClient(s *session, number string) reply {
	id, ok := parseInt(number)
	if !ok || id < 1 {
		return failure("ERR client-id should be greater than 0")
	}
	i := slices.IndexFunc(n.sessions, func(other *session) bool {
		return other.id == id && !other.dead && !other.hangUp
	})
	if i < 0 {
		return integer(0)
	}
	n.sessions[i].hangUp = true
	if n.sessions[i] != s {
		n.sessions[i].signal()
	}
	return integer(1)
}

// allowedSubscribed holds what RESP2 lets a client send while it is subscribed, as far as the node
// knows it.
var allowedSubscribed = map[string]bool{"subscribe": true, "psubscribe": true, "ping": true}

func pubsubCommands() []command {
	return []command{
		{name: "publish", arity: 3, run: publish},
		{name: "pubsub", arity: -2, run: pubsub},
		{name: "psubscribe", arity: 2, run: psubscribe, noScript: true},
		{name: "subscribe", arity: -2, run: subscribe, noScript: true},
	}
}

// publish pushes a message to the subscribers and answers how many there are, including those that
// are gone without the server having noticed.
func publish(n *Node, _ *session, args []string) reply {
	receivers, monitors := n.process.channels[args[1]], n.process.monitors
	for _, s := range receivers {
		s.replyLocked(bulks("message", args[1], args[2]))
		s.signal()
	}
	for _, s := range monitors {
		s.replyLocked(bulks("pmessage", "*", args[1], args[2]))
		s.signal()
	}
	return integer(len(receivers) + len(monitors))
}

// pubsub serves PUBSUB NUMSUB, which counts the subscribers of channels but not of patterns.
func pubsub(n *Node, _ *session, args []string) reply {
	if !strings.EqualFold(args[1], "numsub") {
		return unsupported("PUBSUB " + args[1])
	}
	var items []reply
	for _, channel := range args[2:] {
		items = append(items, bulk(channel), integer(len(n.process.channels[channel])))
	}
	return array(items...)
}

// psubscribe serves the pattern of all channels.
func psubscribe(n *Node, s *session, args []string) reply {
	if args[1] != "*" {
		return unsupported("PSUBSCRIBE " + args[1])
	}
	if !s.monitors {
		s.monitors = true
		n.process.monitors = append(n.process.monitors, s)
	}
	return array(bulk("psubscribe"), bulk("*"), integer(s.subscriptions()))
}

func subscribe(n *Node, s *session, args []string) reply {
	answers := reply{kind: kindSeveral}
	for _, channel := range args[1:] {
		if !slices.Contains(s.subscribed, channel) {
			s.subscribed = append(s.subscribed, channel)
			n.process.channels[channel] = append(n.process.channels[channel], s)
		}
		answers.items = append(answers.items, array(bulk("subscribe"), bulk(channel), integer(s.subscriptions())))
	}
	return answers
}

// subscriptions counts those to channels and to all channels.
func (s *session) subscriptions() int {
	if s.monitors {
		return len(s.subscribed) + 1
	}
	return len(s.subscribed)
}

// unsubscribeLocked ends the subscriptions of a session that is over.
func (n *Node) unsubscribeLocked(s *session) {
	same := func(other *session) bool { return other == s }
	for _, channel := range s.subscribed {
		n.process.channels[channel] = slices.DeleteFunc(n.process.channels[channel], same)
		if len(n.process.channels[channel]) == 0 {
			delete(n.process.channels, channel)
		}
	}
	n.process.monitors = slices.DeleteFunc(n.process.monitors, same)
}

// version is the Redis that the fake imitates.
const version = "7.0.15"

func serverCommands() []command {
	return []command{
		{name: "info", arity: -1, run: info},
		{name: "acl", arity: -2, run: acl, noScript: true},
		{name: "config", arity: -3, run: config, noScript: true},
		{name: "time", arity: 1, run: serverTime},
	}
}

// SetInfo overrides a field of INFO: "role" "slave", "redis_mode" "cluster". An empty value
// restores the node's own.
func (n *Node) SetInfo(field, value string) {
	n.change(func() { override(n.rules.info, field, value) })
}

// SetConfig overrides or adds a parameter of CONFIG GET: "appendonly" "yes". An empty value
// restores the default. The node does not act on it.
func (n *Node) SetConfig(parameter, value string) {
	n.change(func() { override(n.rules.config, strings.ToLower(parameter), value) })
}

func override(values map[string]string, name, value string) {
	if value == "" {
		delete(values, name)
		return
	}
	values[name] = value
}

func serverTime(n *Node, _ *session, _ []string) reply {
	const second = int64(time.Second / time.Microsecond)
	return bulks(strconv.FormatInt(n.now/second, 10), strconv.FormatInt(n.now%second, 10))
}

// infoFields returns the fields of INFO by section, as names and values in turn.
func (n *Node) infoFields() map[string][]string {
	const second = int64(time.Second / time.Microsecond)
	uptime := n.now/second - n.process.started/second // by the wall clock, which may go back
	return map[string][]string{
		"Server": {
			"redis_version", version,
			"redis_mode", "standalone",
			"run_id", n.process.runID,
			"uptime_in_seconds", strconv.FormatInt(uptime, 10),
		},
		"Replication": n.replicationFields(),
		"Cluster":     {"cluster_enabled", "0"},
		"Memory":      {"maxmemory", "0", "maxmemory_policy", "noeviction"},
	}
}

// info serves INFO with any number of sections. None means all.
func info(n *Node, _ *session, args []string) reply {
	var text strings.Builder
	sections := n.infoFields()
	for _, section := range []string{"Server", "Replication", "Cluster", "Memory"} {
		if len(args) > 1 && !slices.ContainsFunc(args[1:], func(name string) bool { return strings.EqualFold(name, section) }) {
			continue
		}
		text.WriteString("# " + section + "\r\n")
		fields := sections[section]
		for i := 0; i < len(fields); i += 2 {
			name, value := fields[i], fields[i+1]
			text.WriteString(name + ":" + cmp.Or(n.rules.info[name], value) + "\r\n")
		}
		text.WriteString("\r\n")
	}
	return bulk(text.String())
}

// LimitDefaultUser takes from the default user the right to any key, as "user default off" does. A
// server with such a user forgets at a restart what its scripts wrote; the node does not act on it.
func (n *Node) LimitDefaultUser(limited bool) {
	n.change(func() { n.rules.limited = limited })
}

// acl serves ACL DRYRUN for the user default, who may do everything, or nothing.
func acl(n *Node, _ *session, args []string) reply {
	switch {
	case !strings.EqualFold(args[1], "dryrun") || len(args) < 4:
		return unsupported("ACL " + args[1])
	case args[2] != "default":
		return failure("ERR User '" + args[2] + "' not found")
	case findCommand(args[3]) == nil && !strings.EqualFold(args[3], "unlink"):
		return failure("ERR Command '" + args[3] + "' not found")
	case n.rules.limited:
		return bulk("This user has no permissions to run the '" + strings.ToLower(args[3]) + "' command")
	}
	return replyOK
}

// defaultConfig holds the parameters that CONFIG GET knows.
var defaultConfig = map[string]string{
	"aof-load-truncated":        "yes",
	"appenddirname":             "appendonlydir",
	"appendfilename":            "appendonly.aof",
	"appendfsync":               "everysec",
	"appendonly":                "no",
	"no-appendfsync-on-rewrite": "no",
	"repl-backlog-ttl":          "3600",
}

// config serves CONFIG GET with names and patterns.
func config(n *Node, _ *session, args []string) reply {
	if !strings.EqualFold(args[1], "get") {
		return unsupported("CONFIG " + args[1])
	}
	values := maps.Clone(defaultConfig)
	maps.Copy(values, n.rules.config)
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if slices.ContainsFunc(args[2:], func(pattern string) bool {
			matches, err := path.Match(strings.ToLower(pattern), name)
			return matches && err == nil
		}) {
			texts = append(texts, name, values[name])
		}
	}
	return bulks(texts...)
}
