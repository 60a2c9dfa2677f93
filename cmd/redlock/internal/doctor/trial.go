package doctor

import (
	"context"
	"crypto/rand"

	"github.com/redquorum/redquorum/internal/ask"
	"github.com/redquorum/redquorum/internal/pipeline"
)

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

// pattern matches what the keys of the locks that are tried have in common.
func (p *probe) pattern() string {
	if p.name != "" {
		return ask.Literal(p.prefix + p.name)
	}
	return ask.Literal(p.prefix) + "*"
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
		// The last one: from here on the connection takes no other commands.
		{"SUBSCRIBE", []any{channel}},
	}, func(any) {})
}
