package doctor

import (
	"context"
	"crypto/rand"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// derivedScript reads a key named like the wait list of a lock, without declaring it to the server.
var derivedScript = pipeline.NewLateScript("return redis.call('GET', 'redquorum:waits:' .. KEYS[1])")

// tryDerivedKey finds out whether a script may touch keys that are not among its KEYS.
func (p *probe) tryDerivedKey(ctx context.Context, f *facts) (err error) {
	f.derived, err = p.run(ctx, derivedScript, p.trialKey())
	return err
}

// trialKey returns the name of a key that nobody uses.
func (p *probe) trialKey() string { return p.prefix + "redquorum:doctor:" + rand.Text() }

const trialScript = "return 1"

// tryCommands runs the commands of a lock on a key of its own.
func (p *probe) tryCommands(ctx context.Context, f *facts) error {
	key := p.trialKey()
	// Named like those of waiters: an ACL may allow no others.
	channel := "redquorum:wake:" + rand.Text()
	life := trialKeyLife.Milliseconds()
	return p.askAll(ctx, f, []request{
		{"SET", []any{key, "1", "NX", "PX", life}},
		{"GET", []any{key}},
		{"EVAL", []any{"return redis.call('PTTL', KEYS[1])", 1, key}},
		{"EVAL", []any{"return redis.call('PEXPIRE', KEYS[1], ARGV[1])", 1, key, life}},
		{"EVAL", []any{trialScript, 0}}, // this or SCRIPT LOAD makes the script known to EVALSHA
		{"SCRIPT", []any{"LOAD", trialScript}},
		{"EVALSHA", []any{pipeline.NewScript(trialScript).Digest(), 0}},
		{"DEL", []any{key}},
		{"PUBLISH", []any{channel, ""}},
		// The last one: from here on the connection takes no other commands.
		{"SUBSCRIBE", []any{channel}},
	}, func(any) {})
}
