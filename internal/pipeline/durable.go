package pipeline

import (
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// persistence is what a server says of what a restart of it keeps, and loads again.
type persistence struct {
	config  map[string]string // of CONFIG GET; empty if that is denied
	untried bool              // whether the default user may load cannot be asked
	refusal string            // what the default user may not do; empty if nothing was refused
}

// anyKey stands for the keys of all locks: no pattern matches it that does not match every key.
const anyKey = "<any key>"

// loads are the commands of an append-only file between MULTI and EXEC. That is how a script of
// several writes is logged; and when many servers load it, each of its writes needs the rights of
// the *default user*. What these forbid is skipped, and nothing but the server's log says so. A
// lone write is always loaded. So a marker may be there, and the locks that it vouches for may be
// gone. The change of database is between MULTI and EXEC, too: without it, the keys are loaded into
// the database of whoever wrote before.
var loads = []Words{
	Command("ACL", "DRYRUN", "default", "SET", anyKey, ""),
	Command("ACL", "DRYRUN", "default", "DEL", anyKey),
	Command("ACL", "DRYRUN", "default", "UNLINK", anyKey), // of what expired
	Command("ACL", "DRYRUN", "default", "PEXPIRE", anyKey, 1),
	Command("ACL", "DRYRUN", "default", "PEXPIREAT", anyKey, 1),
	Command("ACL", "DRYRUN", "default", "ZADD", anyKey, 1, ""),
	Command("ACL", "DRYRUN", "default", "ZREM", anyKey, ""),
	Command("ACL", "DRYRUN", "default", "ZPOPMIN", anyKey),
	Command("ACL", "DRYRUN", "default", "ZREMRANGEBYSCORE", anyKey, 1, 1),
	Command("ACL", "DRYRUN", "default", "SELECT", 0),
}

// steps are those of the handshake. They change nothing.
func (p *persistence) steps() []step {
	p.config = map[string]string{}
	steps := []step{
		optional(p.takeConfig, Command("CONFIG", "GET", "*append*")),
		optional(p.takeConfig, Command("CONFIG", "GET", "aof-load-truncated")),
	}
	for _, words := range loads {
		trial := optional(p.takeTrial, words)
		trial.denied = func(redis.Error) { p.untried = true }
		steps = append(steps, trial)
	}
	return steps
}

func (p *persistence) takeConfig(reply any) bool {
	pairs, ok := reply.([]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].([]byte)
		value, _ := pairs[i+1].([]byte)
		p.config[string(name)] = string(value)
	}
	return ok
}

// takeTrial takes the answer to ACL DRYRUN: OK, or why the user may not run the command.
func (p *persistence) takeTrial(reply any) bool {
	text, ok := reply.([]byte)
	if p.refusal == "" {
		p.refusal = PrintableLine(string(text))
	}
	return ok || reply == "OK"
}

// judge completes an identity whose product and version are known.
//
// A server is durable if a restart brings back every write that it has answered. So its log is
// complete (the first three settings); one that lost its end, by a failed disk or a repair, is not
// loaded as if nothing were missing (the fourth); and all of it is loaded. What cannot be seen
// counts against the server: a vote too early makes two holders, a quarantine too many costs
// MaxTTL.
func (p *persistence) judge(id *Identity) {
	logged := p.config["appendonly"] == "yes" && p.config["appendfsync"] == "always" && p.config["no-appendfsync-on-rewrite"] != "yes"
	whole := logged && p.config["aof-load-truncated"] == "no"
	id.Unloaded = p.refusal
	if loadsAll(id.Product, id.Version) {
		p.untried, id.Unloaded = false, ""
	}
	id.UnknownLoading = p.untried && id.Unloaded == ""
	id.Durable = whole && !p.untried && id.Unloaded == ""
	id.TellsDurable = p.config["appendonly"] != "" && (!whole || !id.UnknownLoading)
}

// loadsAll reports whether a server asks nobody's rights when it loads: Redis before 6 has no
// users, and Valkey has loaded what it logged since 9.1.2. (A Redis without the check cannot be
// told from one with it.)
func loadsAll(product, version string) bool {
	switch product {
	case "redis":
		return version != "" && olderThan(version, 6)
	case "valkey":
		return version != "" && !olderThan(version, 9, 1, 2)
	default:
		return false
	}
}

// olderThan compares a version, as 8.1 or 9.1.2-rc1, with another one. What is no number counts as
// 0.
func olderThan(version string, than ...int) bool {
	numbers := strings.FieldsFunc(version, func(r rune) bool { return r == '.' || r == '-' })
	for i, want := range than {
		have := 0
		if i < len(numbers) {
			have, _ = strconv.Atoi(numbers[i]) //nolint:errcheck // 0
		}
		if have != want {
			return have < want
		}
	}
	return false
}
