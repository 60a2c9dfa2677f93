package pipeline

import (
	"fmt"
	"strings"
	"sync"

	"github.com/gomodule/redigo/redis"
)

// trialScript is what a new connection runs to find out whether it can run scripts. It touches no
// key.
var trialScript = NewScript(trialSource)

const trialSource = "return 1"

// fullPacket is the size of an argument that fills a packet on every path, jumbo frames of 9,000
// bytes included. A path may lose large packets without a word, where a tunnel passes less than it
// tells. There, SET would pass and scripts, which release what it granted, would not. With a full
// packet in the handshake, such a path has no connection.
const fullPacket = 9000

// fullEval is EVAL of the script with such an argument.
var fullEval = sync.OnceValue(func() Words { return Command("EVAL", trialSource, 0, strings.Repeat(".", fullPacket)) })

// trial is the server's replies to the script of a new connection. What a server without scripts
// grants could be neither renewed nor released, so such a server is refused before it grants
// anything.
//
// Everything is sent at once, without waiting for replies: a server that was given the script by
// SCRIPT LOAD runs it by EVALSHA. If an ACL forbids SCRIPT LOAD, NOSCRIPT shows that EVALSHA itself
// is allowed, and EVAL loads the script.
type trial struct {
	load, short, full error // of SCRIPT LOAD, EVALSHA and EVAL; nil if they were not refused
}

func (t *trial) steps() []step {
	note := func(where *error) func(redis.Error) { return func(words redis.Error) { *where = words } }
	isOne := func(reply any) bool { return reply == int64(1) }
	return []step{
		{
			words: trialScript.encoded().load, optional: true,
			use:    func(reply any) bool { _, ok := reply.([]byte); return ok },
			denied: note(&t.load),
		},
		{
			words: Command("EVALSHA", trialScript.Digest(), 0), optional: true,
			use: isOne, denied: note(&t.short),
		},
		{
			words: fullEval(), optional: true,
			use: isOne, denied: note(&t.full),
		},
	}
}

// verdict returns nil if scripts can be run: by EVALSHA, with a way to load them.
func (t *trial) verdict() error {
	known := t.load == nil || t.full == nil
	unknown := hasCode(t.short, "NOSCRIPT")
	switch {
	case t.short == nil && known, unknown && t.full == nil:
		return nil
	case t.short == nil, unknown:
		return noScripts("EVAL", t.full)
	default:
		return noScripts("EVALSHA", t.short)
	}
}

// noScripts returns an error that also says what to do. Other codes (OOM, MISCONF) are about a
// state that may pass: the server cannot be used until then, but it can run scripts.
func noScripts(command string, words error) error {
	switch {
	case hasCode(words, "NOPERM"):
		return fmt.Errorf("%w: %s: %w (allow the user EVALSHA, and EVAL or SCRIPT LOAD)", ErrNoScripts, command, words)
	case hasCode(words, "ERR"):
		return fmt.Errorf("%w: %s: %w (enable Lua on the server, or use one that has it)", ErrNoScripts, command, words)
	default:
		return fmt.Errorf("%s: %w", command, words)
	}
}
