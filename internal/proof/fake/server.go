package fake

import (
	"cmp"
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
	}
}

// info serves INFO with any number of sections. None means all.
func info(n *Node, _ *session, args []string) reply {
	var text strings.Builder
	sections := n.infoFields()
	for _, section := range []string{"Server", "Replication", "Cluster"} {
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

// defaultConfig holds the parameters that CONFIG GET knows.
var defaultConfig = map[string]string{
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
