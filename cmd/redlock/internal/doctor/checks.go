package doctor

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/internal/ask"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/pool"
)

// severity says how bad a finding is.
type severity string

const (
	severe  severity = "error"   // the vote does not count, or cannot be relied on
	warning severity = "warning" // it works today
	note    severity = "note"    // good to know
)

// finding is something to know about a master, or about all of them. Its field names are documented
// (redlock help doctor).
type finding struct {
	Severity severity `json:"severity"`
	Check    string   `json:"check"` // a word that never changes
	What     string   `json:"what"`
	Why      string   `json:"why"`
	Do       string   `json:"do"`
}

// limits are what the masters are measured against.
type limits struct {
	ttl    time.Duration
	maxTTL time.Duration
	strict bool // only redlock init makes a new cluster vote
}

// nodeTimeout is how long a lock with this TTL waits for a master by default: see
// redlock.WithNodeTimeout.
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
		return []finding{f.checkConnection().renamed()}
	}
	add := func(s severity, check, why, do, what string, args ...any) {
		found = append(found, finding{s, check, prose.Readable(fmt.Sprintf(what, args...)), why, do}.renamed())
	}
	f.checkSeveral(add)
	f.checkVote(add, l)
	f.checkMarker(add)
	f.checkServer(add)
	f.checkMemory(add)
	f.checkPersistence(add, l)
	f.checkTime(add, l)
	f.checkName(add)
	f.checkCommands(add)
	f.checkKinds(add)
	f.checkCertificates(add)
	f.checkChangedPersistence(add)
	return f.asFull(found)
}

// adder adds a finding. The format what takes the arguments.
type adder func(s severity, check, why, do, what string, args ...any)

// checkConnection explains why there is no connection.
func (f *facts) checkConnection() finding {
	reason := cli.Reason(f.err, pool.ErrRefused)
	if found, is := f.checkTLS(); is {
		return found
	}
	for _, known := range []struct {
		err            error
		check, why, do string
	}{
		{
			pool.ErrReplica, "replica", "a replica has no vote of its own: it repeats its master's, later",
			"give the endpoint of an independent master",
		},
		{
			pool.ErrClusterMode, "mode", "a cluster may move the key to another server, or fail over and forget it",
			"use a standalone server, with cluster-enabled no",
		},
		{pool.ErrSentinelMode, "mode", "a Sentinel stores no keys", "give the endpoint of an independent master, not that of its monitor"},
		{
			pool.ErrEvicts, "eviction", "an evicted lock can get a second holder",
			"CONFIG SET maxmemory-policy noeviction, and keep memory free",
		},
		{
			pool.ErrNoScripts, "scripts", "scripts renew and release locks: what this server grants would stay until its TTL ends",
			"allow EVALSHA, EVAL and SCRIPT LOAD to the user (docs/operations.md); if the server has no Lua, enable it or use another server",
		},
	} {
		if errors.Is(f.err, known.err) {
			return finding{severe, known.check, reason, known.why, known.do}
		}
	}
	switch {
	case errors.Is(f.err, pool.ErrAuth):
		return finding{
			severe, "password", "user or password is wrong or missing: " + cli.Reason(f.err, pool.ErrAuth),
			"a master that rejects us has no vote",
			"correct user and password in the endpoint, or at the server (ACL LIST)",
		}
	case errors.Is(f.err, pool.ErrUntrusted):
		return finding{
			severe, "untrusted", "it is not connected to: " + cli.Reason(f.err, pool.ErrUntrusted),
			"the masters name it, and the list does not: our password or certificate may not go to any host that they name",
			"add it to the list, with TLS if the others have it; or, if its host is only missing there, give --trust-members",
		}
	case errors.As(f.err, new(x509.UnknownAuthorityError)):
		return finding{
			severe, "unreachable", "its certificate is not trusted: " + reason,
			"a master that may be somebody else has no vote; a majority must answer",
			"trust the authority that signed it: install it on this machine or name its file with --cacert (docs/command.md)",
		}
	default:
		return finding{
			severe, "unreachable", "it does not answer: " + reason,
			"a master that does not answer has no vote; a majority must answer",
			"check that it runs, its address, and the network in between",
		}
	}
}

// checkPersistence tells what a restart forgets.
func (f *facts) checkPersistence(add adder, l limits) {
	if status := f.info["rdb_last_bgsave_status"]; status != "" && status != "ok" {
		add(warning, "save", "a master that cannot save refuses writes (MISCONF), unless stop-writes-on-bgsave-error is no",
			"check its log; free disk space", "its last snapshot failed")
	}
	appendonly, fsync, onRewrite := f.config["appendonly"], f.config["appendfsync"], f.config["no-appendfsync-on-rewrite"]
	do := fmt.Sprintf("restart one master at a time and wait %v between restarts; "+
		"or set appendonly yes, appendfsync always, no-appendfsync-on-rewrite no and aof-load-truncated no: then it forgets nothing", l.maxTTL)
	quarantine := fmt.Sprintf("clients quarantine the master for %v after a restart", l.maxTTL)
	f.checkLoading(add, quarantine)
	switch {
	// A CONFIG GET that was refused is reported once, with the other commands.
	case f.durable || f.denied["CONFIG GET"] != nil:
	case f.isLogged() && f.config["aof-load-truncated"] != "no":
		add(note, "persistence", "a log whose end is damaged is loaded as if nothing were missing; "+quarantine,
			"CONFIG SET aof-load-truncated no, and the same in its file: then it votes at once after a restart. "+
				"A master that does not start any more because its log is damaged is started empty",
			"aof-load-truncated is %s", f.config["aof-load-truncated"])
	case f.isLogged(): // checkLoading says what is left
	case appendonly == "yes" && fsync == "always":
		add(note, "persistence", "a crash during a rewrite forgets what was not written yet; "+quarantine,
			"set no-appendfsync-on-rewrite no: then it forgets nothing, and votes at once after a restart",
			"no-appendfsync-on-rewrite is %s", onRewrite)
	case appendonly == "yes":
		add(note, "persistence", "a crash forgets what was not written yet; "+quarantine, do,
			"appendonly is yes, with appendfsync %s", fsync)
	case f.config["save"] != "":
		add(note, "persistence", "a restart forgets everything since the last snapshot; "+quarantine, do,
			"it keeps snapshots only (appendonly is no)")
	default:
		add(note, "persistence",
			"a restart forgets all locks; "+quarantine+". If all masters can restart at once, use QuarantineStrict", do,
			"no persistence: appendonly is no, and save is empty")
	}
}

// isLogged reports whether every command is in the log on disk before it is answered.
func (f *facts) isLogged() bool {
	return f.config["appendonly"] == "yes" && f.config["appendfsync"] == "always" && f.config["no-appendfsync-on-rewrite"] != "yes"
}

// checkLoading tells whether a restart loads all that is in the log.
func (f *facts) checkLoading(add adder, quarantine string) {
	refusal := f.denied["ACL DRYRUN"]
	switch {
	case f.config["appendonly"] != "yes":
	case f.unloaded != "":
		cure := `ACL SETUSER default off +@all ~* &* (without "off" if programs log in with a password alone)`
		if f.user == "" || f.user == "default" { // as we did
			cure = "ACL SETUSER default +@all ~* &*"
		}
		add(warning, "loading", "it loads its log with the rights of the user default, and skips the rest of what scripts wrote; "+quarantine,
			cure+"; and then ACL SAVE, or the same in its configuration", "a restart loads only a part of its log: %s", f.unloaded)
	case f.untried && f.isLogged() && isACL(refusal):
		add(note, "permission", "a durable master is quarantined like any other: it may load only a part of its log", rule,
			"ACL DRYRUN is refused: %v", refusal)
	case f.untried && f.isLogged():
		add(note, "permission", "a durable master is quarantined like any other: it may load only a part of its log", "use Redis 7 or later",
			"ACL DRYRUN is refused: %v", refusal)
	}
}

// checkTime tells whether answers come in time, and whether the clock is right.
func (f *facts) checkTime(add adder, l limits) {
	slowWhy := "late votes do not count, and every vote takes its time off the validity"
	slowDo := "move it closer; check for slow commands (SLOWLOG GET) and a busy machine; or use a larger TTL"
	switch timeout := l.nodeTimeout(); {
	case f.roundTrip > timeout:
		add(severe, "slow", slowWhy, slowDo, "a round trip takes %v; a lock with a TTL of %v waits %v for a master",
			roundTime(f.roundTrip), l.ttl, timeout)
	case f.roundTrip > timeout/4 || f.slowest > timeout:
		add(warning, "slow", slowWhy, slowDo,
			"a round trip takes %v, the slowest of %d took %v; a lock with a TTL of %v waits %v for a master",
			roundTime(f.roundTrip), pings, roundTime(f.slowest), l.ttl, timeout)
	}
	if off := max(f.offset, -f.offset) - f.doubt; f.offsetOK && off > clockWarning {
		level := warning
		if off > clockSevere {
			level = severe
		}
		add(level, "clock",
			"keys expire by the clock of the master: if it is corrected in one step, its locks end that much early or late",
			"run NTP on the master (and here), so that the clock is slewed; step it once, while no locks are held",
			"its clock is %s", f.offsetText())
	}
}

// checkName tells whether the lock that was named can be stored.
func (f *facts) checkName(add adder) {
	const why = "no lock of this name can be acquired here"
	switch {
	case f.lasting:
		add(severe, "name", why, prose.UseAnother, "%s", prose.NoLock(f.key, prose.Lasting))
	case f.unusable == nil:
	case prose.IsWrongType(f.unusable):
		add(severe, "name", why, prose.UseAnother, "%s", prose.NoLock(f.key, prose.NoString))
	default:
		add(severe, "name", why,
			"allow the key to the user: "+f.setUser()+quoted("~"+ask.Literal(f.key))+" (docs/operations.md has the rule); "+
				"or fix what the server complains about", "the key %q is refused: %v", f.key, f.unusable)
	}
}

// rule is what allows a command.
const rule = "allow it to the user (docs/operations.md has the rule)"

// checkCommands tells which commands of a lock were refused.
func (f *facts) checkCommands(add adder) {
	if f.outside != nil {
		add(severe, "permission", "no lock can be acquired under such a key",
			"give the --key-prefix of the locks that the user is for, or their --name; or allow the keys: "+
				f.setUser()+quoted("~"+f.pattern), "keys like %s are refused: %v", f.pattern, f.outside)
	}
	for _, command := range []string{"SET", "GET", "DEL", "PEXPIRE", "EVALSHA", "PING"} {
		if err := f.denied[command]; err != nil {
			add(severe, "permission", "without it, no lock can be acquired, renewed and released",
				rule+", or fix what the server complains about", "%s is refused: %v", command, err)
		}
	}
	if err := f.denied["PTTL"]; err != nil {
		add(warning, "permission", "Adopt and Inspect fail (and Valid of contrib/redsync), and so does redlock inspect; "+
			"waiters are not woken, and if their time ends, report no quorum", rule, "PTTL is refused: %v", err)
	}
	if f.derived != nil && f.outside == nil && f.denied["GET"] == nil {
		add(warning, "derived", "waiters poll and are not ordered; "+f.failing()+" fail",
			"allow the ~redquorum:… patterns to the user (docs/operations.md has the rule); start Dragonfly with --default_lua_flags=allow-undeclared-keys",
			"keys that a script derives from its own are refused: %v", f.derived)
	}
	for _, command := range []struct{ name, without string }{
		{"EVAL", "after SCRIPT FLUSH, locks cannot be released until the next connection"},
		{"SCRIPT", "the first run of each script on a connection carries its text"},
		{"CONFIG GET", "a durable master is quarantined like any other; persistence was not checked"},
		{"TIME", "no fencing, no shared locks, no order among waiters, and no memory marker; its clock was not checked"},
		{"CLIENT ID", withoutKill},
		{"CLIENT KILL", withoutKill},
		{"PUBSUB NUMSUB", "beside a monitor (PSUBSCRIBE *), a release gives its vote to waiters that have died: each costs two node timeouts"},
	} {
		if err := f.denied[command.name]; err != nil {
			add(note, "permission", command.without, rule, "%s is refused: %v", command.name, err)
		}
	}
	for _, command := range []string{"PUBLISH", "SUBSCRIBE"} {
		if err := f.denied[command]; err != nil {
			add(note, "permission", "the master cannot wake waiters: they poll",
				"allow the command and the channels to the user, if you want wake-ups", "%s is refused: %v", command, err)
		}
	}
}

const withoutKill = "a command that a proxy held back may run after its release; its key ends with its TTL"

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

// roundTime keeps about three digits.
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
