package doctor

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/pool"
)

// severity is how bad a finding is.
type severity string

const (
	severe  severity = "error"   // the vote does not count, or must not be relied on
	warning severity = "warning" // it works today
	note    severity = "note"    // good to know
)

// finding is something about a master, or about all of them, that somebody should know. Its field names are documented
// (docs/command.md).
type finding struct {
	Severity severity `json:"severity"`
	Check    string   `json:"check"` // a word that does not change
	What     string   `json:"what"`
	Why      string   `json:"why"`
	Do       string   `json:"do"`
}

// limits are what the masters are held against.
type limits struct {
	ttl    time.Duration
	maxTTL time.Duration
	strict bool // nobody makes a new cluster vote but redlock init
}

// nodeTimeout is how long a lock with the TTL waits for a master, unless told otherwise: see redlock.WithNodeTimeout.
func (l limits) nodeTimeout() time.Duration {
	return min(max(l.ttl/20, 20*time.Millisecond), 500*time.Millisecond)
}

// How far a clock may be off.
const (
	clockWarning = time.Second
	clockSevere  = 5 * time.Second
)

// check returns the findings about one master, most severe first within each subject.
func (f *facts) check(l limits) (found []finding) {
	if f.err != nil {
		return []finding{f.checkConnection()}
	}
	add := func(s severity, check, why, do, what string, args ...any) {
		found = append(found, finding{s, check, fmt.Sprintf(what, args...), why, do})
	}
	f.checkVote(add, l)
	f.checkMarker(add)
	f.checkServer(add)
	f.checkMemory(add)
	f.checkPersistence(add, l)
	f.checkTime(add, l)
	f.checkCommands(add)
	return found
}

// adder adds a finding. What is a format for the arguments.
type adder func(s severity, check, why, do, what string, args ...any)

// checkConnection tells why there is no connection.
func (f *facts) checkConnection() finding {
	words := strings.TrimPrefix(f.err.Error(), pool.ErrRefused.Error()+": ")
	switch {
	case errors.Is(f.err, pool.ErrReplica):
		return finding{
			severe, "replica", words,
			"a replica has no vote of its own: it repeats its master's, later", "give the endpoint of an independent master",
		}
	case errors.Is(f.err, pool.ErrClusterMode):
		return finding{
			severe, "mode", words,
			"it may hand the key to another server, or fail over, and forget it", "use a server of its own with cluster-enabled no",
		}
	case errors.Is(f.err, pool.ErrSentinelMode):
		return finding{
			severe, "mode", words,
			"a Sentinel stores no keys", "give the endpoint of an independent master, not of what watches it",
		}
	case errors.Is(f.err, pool.ErrNoScripts):
		return finding{
			severe, "scripts", words,
			"locks are renewed and released by scripts: what it granted would stay until its TTL",
			"allow EVALSHA, EVAL and SCRIPT LOAD to the user (docs/operations.md); where the server has no Lua, switch it on, or use another server",
		}
	case errors.Is(f.err, pool.ErrAuth):
		return finding{
			severe, "password", "password or user are wrong or missing: " + strings.TrimPrefix(words, pool.ErrAuth.Error()+": "),
			"a master that does not let us in has no vote", "correct user and password in the endpoint, or at the server (ACL LIST)",
		}
	default:
		return finding{
			severe, "unreachable", "it does not answer: " + words, "a master that does not answer has no vote; a majority must answer",
			"check that it runs, its address, and the network between",
		}
	}
}

// checkMemory tells whether keys may be evicted or refused for want of memory.
func (f *facts) checkMemory(add adder) {
	limit, err := strconv.ParseUint(f.info["maxmemory"], 10, 64)
	if err != nil || limit == 0 {
		return
	}
	policy := f.info["maxmemory_policy"]
	if policy != "noeviction" {
		add(severe, "eviction", "an evicted lock is a lock that two can hold", "CONFIG SET maxmemory-policy noeviction, and keep room",
			"maxmemory is %d bytes and maxmemory-policy is %s", limit, policy)
		return
	}
	if used, err := strconv.ParseUint(f.info["used_memory"], 10, 64); err == nil && used > limit/10*9 {
		add(warning, "memory", "a full master refuses every lock (OOM)", "raise maxmemory, or move what else is stored there",
			"%d of %d bytes of maxmemory are used", used, limit)
	}
}

// checkPersistence tells what a restart forgets.
func (f *facts) checkPersistence(add adder, l limits) {
	if status := f.info["rdb_last_bgsave_status"]; status != "" && status != "ok" {
		add(warning, "save", "a master that cannot save refuses writes (MISCONF), unless stop-writes-on-bgsave-error is no", "look into its log; free its disk",
			"its last snapshot failed")
	}
	appendonly, fsync, onRewrite := f.config["appendonly"], f.config["appendfsync"], f.config["no-appendfsync-on-rewrite"]
	do := fmt.Sprintf("restart one master at a time and wait %v between two; "+
		"or appendonly yes with appendfsync always and no-appendfsync-on-rewrite no, which forgets nothing", l.maxTTL)
	switch {
	case f.durable || f.denied["CONFIG GET"] != nil: // the latter is told once, with the other commands
	case appendonly == "yes" && fsync == "always":
		add(note, "persistence", fmt.Sprintf("a crash during a rewrite forgets what was not written yet; clients quarantine the master for %v after any restart", l.maxTTL),
			"set no-appendfsync-on-rewrite no: then it forgets nothing, and votes at once after a restart", "no-appendfsync-on-rewrite is %s", onRewrite)
	case appendonly == "yes":
		add(note, "persistence", fmt.Sprintf("a crash forgets what was not written yet; clients quarantine the master for %v after a restart", l.maxTTL), do,
			"appendonly is yes, with appendfsync %s", fsync)
	case f.config["save"] != "":
		add(note, "persistence", fmt.Sprintf("a restart forgets all since the last snapshot; clients quarantine the master for %v then", l.maxTTL), do,
			"it keeps snapshots only (appendonly is no)")
	default:
		add(note, "persistence", fmt.Sprintf("a restart forgets all locks; clients quarantine the master for %v then. If all masters can restart at once, use QuarantineStrict", l.maxTTL), do,
			"no persistence: appendonly is no, and save is empty")
	}
}

// checkTime tells whether answers come in time, and whether the clock is right.
func (f *facts) checkTime(add adder, l limits) {
	slowWhy := "votes that come late do not count, and all take their time off the validity"
	slowDo := "move it nearer; look for slow commands (SLOWLOG GET) and a busy machine; or use a larger TTL"
	switch timeout := l.nodeTimeout(); {
	case f.roundTrip > timeout:
		add(severe, "slow", slowWhy, slowDo, "a round trip takes %v; a lock with a TTL of %v waits %v for a master", roundTime(f.roundTrip), l.ttl, timeout)
	case f.roundTrip > timeout/4 || f.slowest > timeout:
		add(warning, "slow", slowWhy, slowDo, "a round trip takes %v, the slowest of %d took %v; a lock with a TTL of %v waits %v for a master",
			roundTime(f.roundTrip), pings, roundTime(f.slowest), l.ttl, timeout)
	}
	if off := max(f.offset, -f.offset) - f.doubt; f.offsetOK && off > clockWarning {
		level := warning
		if off > clockSevere {
			level = severe
		}
		add(level, "clock", "keys expire by the clock of the master: when it is set right in one step, its locks end early, or late by as much",
			"run NTP on the master (and here), so that the clock is slewed; set it once, while no locks are held",
			"its clock is %s", f.offsetText())
	}
}

// checkCommands tells which commands of a lock were refused.
func (f *facts) checkCommands(add adder) {
	for _, command := range []string{"SET", "GET", "DEL", "EVALSHA", "PING"} {
		if err := f.denied[command]; err != nil {
			add(severe, "permission", "no lock can be taken, renewed and released without it", "allow it to the user (docs/operations.md has the rule), or see to what the server says",
				"%s is refused: %v", command, err)
		}
	}
	if f.derived != nil && f.denied["GET"] == nil {
		add(warning, "derived", "who waits for a lock polls, and has no place in the order; fencing tokens and Adopt fail",
			"allow the ~redquorum:… patterns to the user (docs/operations.md has the rule); start Dragonfly with --default_lua_flags=allow-undeclared-keys",
			"keys that a script derives from its own are refused: %v", f.derived)
	}
	for _, command := range []struct{ name, without string }{
		{"EVAL", "after SCRIPT FLUSH, locks cannot be released until the next connection"},
		{"SCRIPT", "the first run of each script on a connection carries its text"},
		{"CONFIG GET", "a durable master is quarantined like any; persistence was not checked"},
		{"TIME", "no fencing, no place in the order for who waits, and no memory marker; its clock was not checked"},
	} {
		if err := f.denied[command.name]; err != nil {
			add(note, "permission", command.without, "allow it to the user (docs/operations.md has the rule)", "%s is refused: %v", command.name, err)
		}
	}
	for _, command := range []string{"PUBLISH", "SUBSCRIBE"} {
		if err := f.denied[command]; err != nil {
			add(note, "permission", "nobody can be woken by the master: who waits for a lock polls", "allow the command and the channels to the user, if you want it",
				"%s is refused: %v", command, err)
		}
	}
}

func (f *facts) because(command string) string {
	if err := f.denied[command]; err != nil {
		return ": " + err.Error()
	}
	return ""
}

func (f *facts) offsetText() string {
	if f.offset < 0 {
		return fmt.Sprintf("%v behind ours", roundTime(-f.offset))
	}
	return fmt.Sprintf("%v ahead of ours", roundTime(f.offset))
}

// before returns the text before a separator, or all of it.
func before(text, separator string) string {
	head, _, _ := strings.Cut(text, separator)
	return head
}

// roundTime leaves three digits or so.
func roundTime(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond)
	default:
		return d.Round(time.Microsecond)
	}
}
