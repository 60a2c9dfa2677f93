package fake

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// version is the Redis that the fake imitates.
const version = "7.0.15"

func serverCommands() []command {
	return []command{
		{name: "info", arity: -1, run: info},
		{name: "config", arity: -3, run: config, noScript: true},
		{name: "time", arity: 1, run: serverTime},
	}
}

// SetInfo overrides a field of INFO, or adds one to its server section: "role" "slave",
// "redis_mode" "cluster". An empty value restores the node's own.
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

// infoField is a line of INFO.
type infoField struct{ section, name, value string }

// infoFields returns the fields of INFO, section by section.
func (n *Node) infoFields() []infoField {
	const second = int64(time.Second / time.Microsecond)
	uptime := n.now/second - n.process.started/second // by the wall clock, which may go back
	fields := []infoField{
		{"Server", "redis_version", version},
		{"Server", "redis_mode", "standalone"},
		{"Server", "run_id", n.process.runID},
		{"Server", "tcp_port", "6379"},
		{"Server", "server_time_usec", strconv.FormatInt(n.now, 10)},
		{"Server", "uptime_in_seconds", strconv.FormatInt(uptime, 10)},
		{"Server", "uptime_in_days", strconv.FormatInt(uptime/86_400, 10)},
		{"Clients", "connected_clients", strconv.Itoa(len(n.sessions))},
		{"Memory", "maxmemory", "0"},
		{"Memory", "maxmemory_policy", "noeviction"},
		{"Persistence", "loading", "0"},
		{"Persistence", "aof_enabled", "0"},
	}
	fields = append(fields, n.replicationFields()...)
	fields = append(fields, infoField{"Cluster", "cluster_enabled", "0"})
	known := make(map[string]bool)
	for i := range fields {
		known[fields[i].name] = true
		if value, ok := n.rules.info[fields[i].name]; ok {
			fields[i].value = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.rules.info)) {
		if !known[name] {
			fields = slices.Insert(fields, 0, infoField{"Server", name, n.rules.info[name]})
		}
	}
	return fields
}

// info serves INFO with any number of sections. None, "all", "default" and "everything" mean all
// sections.
func info(n *Node, _ *session, args []string) reply {
	every := []string{"all", "default", "everything"}
	wanted := func(section string) bool {
		return len(args) == 1 || slices.ContainsFunc(args[1:], func(name string) bool {
			return strings.EqualFold(name, section) || slices.Contains(every, strings.ToLower(name))
		})
	}
	var text strings.Builder
	section := ""
	for _, field := range n.infoFields() {
		if !wanted(field.section) {
			continue
		}
		if field.section != section {
			if section != "" {
				text.WriteString("\r\n")
			}
			section = field.section
			text.WriteString("# " + section + "\r\n")
		}
		text.WriteString(field.name + ":" + field.value + "\r\n")
	}
	return bulk(text.String())
}

// defaultConfig holds the parameters that CONFIG GET knows.
var defaultConfig = map[string]string{
	"appenddirname":             "appendonlydir",
	"appendfilename":            "appendonly.aof",
	"appendfsync":               "everysec",
	"appendonly":                "no",
	"databases":                 "16",
	"maxmemory":                 "0",
	"maxmemory-policy":          "noeviction",
	"no-appendfsync-on-rewrite": "no",
	"repl-backlog-ttl":          "3600",
	"save":                      "",
	"timeout":                   "0",
}

// config serves CONFIG GET with names and patterns.
func config(n *Node, _ *session, args []string) reply {
	if !strings.EqualFold(args[1], "get") {
		return unsupported("CONFIG " + args[1])
	}
	values := maps.Clone(defaultConfig)
	maps.Copy(values, n.rules.config)
	found := make(map[string]string) // by the name that the client wrote
	for _, pattern := range args[2:] {
		if value, ok := values[strings.ToLower(pattern)]; ok {
			found[pattern] = value
			continue
		}
		for name, value := range values {
			// No name has a slash, which path.Match treats differently from Redis.
			if ok, err := path.Match(strings.ToLower(pattern), name); ok && err == nil {
				found[name] = value
			}
		}
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(found)) {
		texts = append(texts, name, found[name])
	}
	return bulks(texts...)
}
