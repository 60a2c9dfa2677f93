package doctor

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/internal/ask"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/internal/trouble"
)

// limits are what the masters are measured against.
type limits struct {
	ttl    time.Duration
	maxTTL time.Duration
	strict bool // only redlock init makes a new cluster vote
	prefix string
}

// prefixFlag is what gives the prefix to another command in a shell; empty without a prefix. The
// user may have no other keys.
func (l limits) prefixFlag() string {
	if l.prefix == "" {
		return ""
	}
	return " --key-prefix '" + strings.ReplaceAll(l.prefix, "'", `'\''`) + "'"
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
func (f *facts) check(l limits) []finding {
	r := &findings{fill: fill{
		"endpoint": f.endpoint, "user": quoted(cmp.Or(f.user, "default")), "max-ttl": l.maxTTL.String(), "wait": (3 * max(l.maxTTL, leastQuarantine)).String(),
		"ttl": l.ttl.String(), "keep": f.keep(), "prefix": l.prefixFlag(),
	}}
	if f.err != nil {
		f.checkConnection(r)
		return r.all
	}
	f.takeStates()
	for _, check := range []func(*findings){
		f.checkStates, f.checkSeveral, func(r *findings) { f.checkVote(r, l) }, f.checkMarker, f.checkServer, f.checkMemory, f.checkPersistence,
		func(r *findings) { f.checkTime(r, l) }, f.checkName, f.checkCommands, f.checkKinds, f.checkCertificates, f.checkChangedPersistence,
	} {
		check(r)
	}
	return r.all
}

// keep returns the command that keeps a change of users over a restart; "" if that is not known, or
// the server has them in its configuration.
func (f *facts) keep() string {
	if f.config["aclfile"] == "" {
		return ""
	}
	return "ACL SAVE"
}

// leastQuarantine is how long a master that forgot waits at least.
const leastQuarantine = 4 * time.Second

// checkPersistence tells what a restart forgets.
func (f *facts) checkPersistence(r *findings) {
	if status := f.info["rdb_last_bgsave_status"]; status != "" && status != "ok" && f.states[trouble.NotWriting] == nil {
		r.add(trouble.SaveFails, nil, "its last snapshot failed")
	}
	appendonly, fsync, onRewrite := f.config["appendonly"], f.config["appendfsync"], f.config["no-appendfsync-on-rewrite"]
	f.checkLoading(r)
	switch {
	// A CONFIG GET that was refused is reported once, with the other commands.
	case f.durable || f.denied["CONFIG GET"] != nil:
	case f.isLogged() && f.config["aof-load-truncated"] != "no":
		r.add(trouble.Truncated, nil, "aof-load-truncated is %s", f.config["aof-load-truncated"])
	case f.isLogged(): // checkLoading says what is left
	case appendonly == "yes" && fsync == "always":
		r.add(trouble.OnRewrite, nil, "no-appendfsync-on-rewrite is %s", onRewrite)
	case appendonly == "yes":
		r.add(trouble.Fsync, nil, "appendonly is yes, with appendfsync %s", fsync)
	case f.config["save"] != "":
		r.add(trouble.Snapshots, nil, "it keeps snapshots only (appendonly is no)")
	default:
		r.add(trouble.NoPersistence, nil, "no persistence: appendonly is no, and save is empty")
	}
}

// isLogged reports whether every command is in the log on disk before it is answered.
func (f *facts) isLogged() bool {
	return f.config["appendonly"] == "yes" && f.config["appendfsync"] == "always" && f.config["no-appendfsync-on-rewrite"] != "yes"
}

// checkLoading tells whether a restart loads all that is in the log.
func (f *facts) checkLoading(r *findings) {
	refusal := f.denied["ACL DRYRUN"]
	switch {
	case f.config["appendonly"] != "yes":
	case f.unloaded != "":
		rule := "ACL SETUSER default off +@all ~* &*"
		if f.user == "" || f.user == "default" { // as we did
			rule = "ACL SETUSER default +@all ~* &*"
		}
		found := r.add(trouble.LoadsPart, fill{"rule": rule}, "a restart loads only a part of its log: %s", f.unloaded)
		if f.user != "" && f.user != "default" {
			found.Do += `. Leave out "off" if programs log in with a password alone`
		}
	case f.untried && f.isLogged() && (trouble.Of(refusal) == trouble.Right || f.major() >= 7):
		r.addRefusal(trouble.Right, refusal, trouble.NoDryRun.Row().Why, f.setUser()+"+acl|dryrun", "ACL DRYRUN")
	case f.untried && f.isLogged():
		r.add(trouble.NoDryRun, nil, "ACL DRYRUN is refused: %v", refusal)
	}
}

// checkTime tells whether answers come in time, and whether the clock is right.
func (f *facts) checkTime(r *findings, l limits) {
	switch timeout := l.nodeTimeout(); {
	case f.roundTrip > timeout:
		r.add(trouble.Slow, nil, "a round trip takes %v; a lock with a TTL of %v waits %v for a master", roundTime(f.roundTrip), l.ttl, timeout)
	case f.roundTrip > timeout/4 || f.slowest > timeout:
		r.add(trouble.Slow, nil, "a round trip takes %v, the slowest of %d took %v; a lock with a TTL of %v waits %v for a master",
			roundTime(f.roundTrip), pings, roundTime(f.slowest), l.ttl, timeout).Severity = trouble.Warning
	}
	if off := f.leastOff(); off > clockWarning && !f.oursIsOff {
		found := r.add(trouble.Clock, nil, "its clock is %s", f.offsetText())
		if off > clockSevere {
			found.Severity = trouble.Error
		}
	}
}

// leastOff returns how far its clock is off ours at least; 0 if that is not known.
func (f *facts) leastOff() time.Duration {
	if !f.offsetOK {
		return 0
	}
	return max(f.offset, -f.offset) - f.doubt
}

// checkOurClock finds out whether it is our clock that is wrong: a majority of the masters, more
// than one, agree about another time.
func checkOurClock(all []facts) (found []finding) {
	for i := range all {
		first := &all[i]
		if first.leastOff() <= clockWarning {
			continue
		}
		agree := slices.DeleteFunc(slices.Collect(pointers(all)), func(f *facts) bool {
			apart := f.offset - first.offset
			return f.leastOff() <= clockWarning || max(apart, -apart) > clockWarning/2
		})
		if len(agree) < 2 || len(agree) <= len(all)/2 {
			continue
		}
		for _, f := range agree {
			f.oursIsOff = true
		}
		r := &findings{}
		r.add(trouble.OurClock, nil, "%s agree that our clock is wrong: theirs are %s", prose.Plural(len(agree), "master"), first.offsetText())
		return r.all
	}
	return nil
}

func pointers(all []facts) iter.Seq[*facts] {
	return func(yield func(*facts) bool) {
		for i := range all {
			if !yield(&all[i]) {
				return
			}
		}
	}
}

// checkName tells whether the lock that was named can be stored.
func (f *facts) checkName(r *findings) {
	switch {
	case f.lasting:
		r.add(trouble.Lasting, nil, "%s", prose.NoLock(f.key, prose.Lasting))
	case f.unusable == nil:
	case trouble.Of(f.unusable) == trouble.NoString:
		r.add(trouble.NoString, nil, "%s", prose.NoLock(f.key, prose.NoString))
	default:
		r.add(trouble.NoKey, fill{"rule": f.setUser() + quoted("~"+ask.Literal(f.key))}, "the key %q is refused: %v", f.key, f.unusable)
	}
}

// checkCommands tells which commands of a lock were refused.
func (f *facts) checkCommands(r *findings) {
	if f.outside != nil {
		r.addRefusal(trouble.Keys, f.outside, "", f.setUser()+quoted("~"+f.pattern), "a key like %s", f.pattern)
	}
	refused := func(s trouble.Severity, cost string, commands ...string) {
		for _, command := range commands {
			if refusal := f.denied[command]; refusal != nil {
				r.addRefusal(trouble.Right, refusal, cost, f.setUser()+ruleOf(command), "%s", command).Severity = s
			}
		}
	}
	refused(trouble.Error, "without it, no lock can be acquired, renewed and released", "SET", "GET", "DEL", "PEXPIRE", "EVALSHA", "PING")
	refused(trouble.Warning, "Adopt and Inspect fail (and Valid of contrib/redsync), and so does redlock inspect; "+
		"waiters are not woken, and if their time ends, report no quorum", "PTTL")
	if f.derived != nil && f.outside == nil && f.denied["GET"] == nil {
		found := r.addRefusal(trouble.Derived, f.derived, "", f.allowing(f.derivedRules()), "a key that a script derives from its own")
		found.Why = strings.ReplaceAll(found.Why, "{failing}", f.failing())
	}
	for _, one := range []struct{ command, without string }{
		{"EVAL", "after SCRIPT FLUSH, locks cannot be released until the next connection"},
		{"SCRIPT", "the first run of each script on a connection carries its text"},
		{"CONFIG GET", "a durable master is quarantined like any other; persistence was not checked"},
		{"TIME", "no fencing, no shared locks, no order among waiters, and no memory marker; its clock was not checked"},
		{"CLIENT ID", withoutKill},
		{"CLIENT KILL", withoutKill},
		{"PUBSUB NUMSUB", "beside a monitor (PSUBSCRIBE *), a release gives its vote to waiters that have died: each costs two node timeouts"},
	} {
		refused(trouble.Note, one.without, one.command)
	}
	for _, command := range []string{"PUBLISH", "SUBSCRIBE"} {
		if refusal := f.denied[command]; refusal != nil {
			r.addRefusal(trouble.Channels, refusal, "", f.setUser()+ruleOf(command)+" &redquorum:wake:*", "%s", command)
		}
	}
}

const withoutKill = "a command that a proxy held back may run after its release; its key ends with its TTL"

// ruleOf returns the rule that allows a command.
func ruleOf(command string) string {
	if command == "SCRIPT" {
		command = "script|load"
	}
	return "+" + strings.ReplaceAll(strings.ToLower(command), " ", "|")
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
