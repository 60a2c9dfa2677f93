package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"strings"
	"unicode"

	"github.com/redquorum/redquorum/internal/ask"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/trouble"
)

// kind is something that needs rights beyond those of a lock.
type kind struct {
	check    string   // of the finding
	name     string   // in texts
	users    string   // what fails without it
	commands [][]any  // each with arguments behind the key; none changes a key that is absent
	keys     []string // what its keys begin with, before that of the lock
	slots    bool     // it has keys that begin with that of the lock
	whole    string   // a key of its own, whatever the lock; "" for none
	longer   bool     // its keys go on behind the name of the lock
	without  string   // what it means to lack one of them; "" if just that the users fail
}

// fencing is the check of a kind that failing names in any case.
const fencing = "fencing"

var kinds = []kind{
	{
		check: fencing, name: "fencing tokens", users: "redlock run --fence, redlock elect and WithFencing",
		keys: []string{"redquorum:fence:"},
	},
	{
		check: "semaphores", name: "semaphores", users: "redlock run --permits and Semaphore",
		commands: [][]any{{"MGET"}, {"EXISTS"}},
		keys:     []string{"redquorum:permits:", "redquorum:permit:wait:"},
		slots:    true,
	},
	{check: "any", name: "locks of any of several names", users: "LockAny and TryLockAny", commands: [][]any{{"MGET"}}},
	{check: "adopt", name: "adoptions", users: "Adopt, and Extend of contrib/redsync with WithValue,", keys: []string{"redquorum:adopt:"}, longer: true},
	{
		check: "waiting", name: "line of waiters that is complete",
		commands: [][]any{{"ZADD", "XX", 1, "x"}, {"ZSCORE", "x"}, {"ZPOPMIN"}, {"ZREM", "x"}, {"ZCARD"}, {"ZRANGE", 0, 0}},
		keys:     []string{"redquorum:wait:", "redquorum:waits:"},
		without: "waiters are not woken, and poll; have no order without ZADD or ZSCORE; one that gave up still gets a vote without ZREM; " +
			"their list has no bound without ZCARD (docs/operations.md)",
	},
	{
		check: "others", name: "turns for other Redlock libraries", keys: []string{"redquorum:others:"},
		without: "where others lock the same names, they may wait for long beside waiters of ours",
	},
	{
		check: "shared", name: "shared locks", users: "redlock run --shared and RLock",
		commands: [][]any{
			{"EXISTS"},
			{"PEXPIREAT", 1},
			{"ZADD", "XX", 1, "x"},
			{"ZRANGE", 0, 0},
			{"ZREM", "x"},
			{"ZREMRANGEBYSCORE", 1, 1},
			{"ZSCORE", "x"},
		},
		keys: []string{"redquorum:readers:", "redquorum:intent:"},
	},
	{
		check: "elections", name: "elections", users: "redlock elect and package election",
		commands: [][]any{{"ZADD", "XX", 1, "x"}, {"ZCARD"}, {"ZPOPMIN"}, {"ZRANGE", 0, 0}},
		keys:     []string{"redquorum:terms:"},
	},
	{
		check: "log", name: "line in the log", users: "redlock log and the lines that tell of forced releases and lost locks",
		commands: [][]any{{"ZADD", "XX", 1, "x"}, {"ZCARD"}, {"ZPOPMIN"}, {"ZRANGE", 0, 0}},
		whole:    "redquorum:log",
	},
	{
		check: "history", name: "history of names", users: "redlock log NAME, which run, elect and WithHistory write",
		commands: [][]any{{"ZADD", "XX", 1, "x"}, {"ZCARD"}, {"ZPOPMIN"}, {"ZRANGE", 0, 0}},
		keys:     []string{"redquorum:log:"},
	},
}

var (
	// The key of the command is one that nobody uses.
	commandScript = pipeline.NewLateScript("return redis.pcall(ARGV[1], ARGV[2], unpack(ARGV, 3))")

	// Reading and writing may be allowed separately. An unknown option makes SET fail before it
	// writes, but after the checks of rights.
	keyScript = pipeline.NewLateScript(`
local key = ARGV[3] or ARGV[1] .. KEYS[1] .. ARGV[2]
local read = redis.pcall('GET', key)
if type(read) == 'table' and not string.find(read.err, 'WRONGTYPE') then return read end
local write = redis.pcall('SET', key, '', 'redquorum')
if write.err and string.find(write.err, 'syntax') then return 1 end
return write`)
)

// lack is a right that a kind needs and the user does not have.
type lack struct {
	what    string // the command, or the pattern of the keys
	rule    string // that would allow it
	refusal error
}

// tryKinds finds out which rights are missing for each kind. It changes no key.
func (p *probe) tryKinds(ctx context.Context, f *facts) error {
	f.lacks = map[string][]lack{}
	if f.unusable != nil {
		return nil // all scripts on the key are refused
	}
	key, trial := p.subject(), p.trialKey()
	type attempt struct {
		kind  string
		lack  lack // if it is refused
		reply ask.Reply
	}
	var attempts []attempt
	try := func(k *kind, what, rule string, script *pipeline.Script, args ...any) {
		reply := p.Run(script, key, args...)
		attempts = append(attempts, attempt{k.check, lack{what: what, rule: rule}, reply})
	}
	for i := range kinds {
		k := &kinds[i]
		for _, command := range k.commands {
			name := fmt.Sprint(command[0])
			try(k, name, "+"+strings.ToLower(name), commandScript, append([]any{name, trial}, command[1:]...)...)
		}
		for _, begins := range k.keys {
			pattern, behind := begins+p.pattern(), ""
			if k.longer && p.name != "" {
				pattern, behind = pattern+":*", ":x"
			}
			try(k, pattern, "~"+pattern, keyScript, begins, behind)
		}
		if k.whole != "" {
			try(k, k.whole, "~"+k.whole, keyScript, "", "", k.whole)
		}
		if p.name != "" && k.slots {
			pattern := p.pattern() + "#*"
			try(k, pattern, "~"+pattern, keyScript, "", "#1")
		}
	}
	for _, t := range attempts {
		_, err := t.reply.Wait(ctx)
		t.lack.refusal = ask.RefusalOf(err)
		isCommand := strings.HasPrefix(t.lack.rule, "+")
		if isCommand && p.isTrialRefused(f, t.lack.refusal) {
			continue // the command itself is allowed
		}
		if !isCommand && trouble.Of(t.lack.refusal) == trouble.Unknown {
			continue // GET or SET, which have findings of their own
		}
		if t.lack.refusal != nil {
			f.lacks[t.kind] = append(f.lacks[t.kind], t.lack)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// checkKinds tells which kinds the user has no rights for. They are notes: who does not use a kind
// needs none.
func (f *facts) checkKinds(r *findings) {
	if f.unusable != nil || f.outside != nil || f.derived != nil || f.denied["GET"] != nil || f.denied["DEL"] != nil || f.denied["EVALSHA"] != nil {
		return // these findings say it
	}
	for _, k := range kinds {
		lacks := f.lacks[k.check]
		if len(lacks) == 0 {
			continue
		}
		var rules []string
		for _, l := range lacks {
			rules = append(rules, quoted(l.rule))
		}
		cost := k.without
		if cost == "" {
			cost = k.users + " fail; other locks do not need this"
		}
		found := r.addRefusal(trouble.Right, lacks[0].refusal, cost, f.setUser()+strings.Join(rules, " "), "no %s: %s", k.name, lacks[0].what)
		found.Check = k.check
		if k.without == "" {
			found.Do = "if you use them, " + found.Do
		}
	}
}

// failing lists what fails if scripts cannot touch the keys that they derive.
func (f *facts) failing() string {
	names := []string{"fencing tokens", "adoptions"}
	for _, k := range kinds {
		if k.check != fencing && k.check != "adopt" && k.users != "" && len(f.lacks[k.check]) > 0 {
			names = append(names, k.name)
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// derivedScript reads a key named like the wait list of a lock, without declaring it to the server.
var derivedScript = pipeline.NewLateScript("return redis.call('GET', 'redquorum:waits:' .. KEYS[1])")

// tryDerivedKey finds out whether a script may touch keys that are not among its KEYS.
func (p *probe) tryDerivedKey(ctx context.Context, f *facts) (err error) {
	if f.unusable == nil {
		f.derived, err = p.run(ctx, derivedScript, p.subject())
	}
	return err
}

// nameScript finds out whether a lock could be stored under a key, and changes nothing: see
// keyScript. It returns the time that the key has left; -1 if it does not expire.
var nameScript = pipeline.NewLateScript(`
local read = redis.pcall('GET', KEYS[1])
if type(read) == 'table' then return read end
local write = redis.pcall('SET', KEYS[1], '', 'redquorum')
if not (write.err and string.find(write.err, 'syntax')) then return write end
local left = redis.pcall('PTTL', KEYS[1])
if type(left) == 'table' then return 0 end
return left`)

// tryName finds out whether the key of the lock can be used.
func (p *probe) tryName(ctx context.Context, f *facts) (err error) {
	if p.name != "" {
		f.key = p.subject()
		var left any
		left, err = p.Run(nameScript, f.key).Wait(ctx)
		f.lasting = left == int64(-1)
		if f.unusable = ask.RefusalOf(err); f.unusable != nil {
			return nil
		}
	}
	return err
}

// subject returns the key on which scripts are tried that change nothing.
func (p *probe) subject() string {
	if p.name != "" {
		return p.prefix + p.name
	}
	return p.trialKey()
}

// pattern matches what the keys of the locks that are tried have in common. Redis takes no white
// space in the pattern of a user; a question mark matches that as well.
func (p *probe) pattern() string {
	pattern := ask.Literal(p.prefix + p.name)
	if p.name == "" {
		pattern += "*"
	}
	return strings.Map(func(r rune) rune {
		if r == 0 || r <= ' ' && unicode.IsSpace(r) {
			return '?'
		}
		return r
	}, pattern)
}

// trialKey returns the name of a key that nobody uses.
func (p *probe) trialKey() string { return p.prefix + "redquorum:doctor:" + rand.Text() }

// isTrialRefused reports whether only the trial key was refused, and not the command. The rights
// for one lock need not include that key. Without a name it stands for the keys of all locks.
func (p *probe) isTrialRefused(f *facts, refusal error) bool {
	if refusal == nil || !ask.IsAboutKey(refusal) {
		return false
	}
	if p.name == "" {
		f.outside = refusal
	}
	return true
}

const trialScript = "return 1" // it needs no right but that to run it

// tryCommands runs the commands of a lock, those that change something on a key of its own.
func (p *probe) tryCommands(ctx context.Context, f *facts) error {
	key := p.trialKey()
	// Named like those of waiters: an ACL may allow no others.
	channel := "redquorum:wake:" + rand.Text()
	return p.askAll(ctx, f, []request{
		{"SET", []any{key, "1", "NX", "PX", trialKeyLife.Milliseconds()}},
		{"GET", []any{key}},
		{"PTTL", []any{key}},
		{"PEXPIRE", []any{key, trialKeyLife.Milliseconds()}},
		{"EVAL", []any{trialScript, 0}}, // this or SCRIPT LOAD makes the script known to EVALSHA
		{"SCRIPT", []any{"LOAD", trialScript}},
		{"EVALSHA", []any{pipeline.NewScript(trialScript).Digest(), 0}},
		{"DEL", []any{key}},
		{"PUBLISH", []any{channel, ""}},
		{"CLIENT", []any{"ID"}},
		{"CLIENT", []any{"KILL", "ID", math.MaxInt64}}, // nobody has that one
		{"PUBSUB", []any{"NUMSUB", channel}},
		// The last one: from here on the connection takes no other commands.
		{"SUBSCRIBE", []any{channel}},
	}, func(any) {})
}
