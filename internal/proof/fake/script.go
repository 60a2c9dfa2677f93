package fake

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"
)

const noScript = "NOSCRIPT No matching script. Please use EVAL."

func scriptCommands() []command {
	return []command{
		{name: "eval", arity: -3, run: eval, noScript: true},
		{name: "evalsha", arity: -3, run: evalSHA, noScript: true},
		{name: "script", arity: -2, run: script, noScript: true},
	}
}

func digestOf(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

func eval(n *Node, s *session, args []string) reply {
	keys, argv, fail := splitScriptArgs(args)
	if fail != nil {
		return *fail
	}
	digest := digestOf(args[1])
	if fail := n.loadScript(digest, args[1]); fail != nil {
		return *fail
	}
	return n.runScript(s, digest, keys, argv)
}

func evalSHA(n *Node, s *session, args []string) reply {
	keys, argv, fail := splitScriptArgs(args)
	if fail != nil {
		return *fail
	}
	digest := strings.ToLower(args[1])
	if _, ok := n.process.scripts[digest]; !ok {
		return failure(noScript)
	}
	return n.runScript(s, digest, keys, argv)
}

// splitScriptArgs splits what follows the script into KEYS and ARGV.
func splitScriptArgs(args []string) (keys, argv []string, fail *reply) {
	var r reply
	count, ok := parseInt(args[2])
	switch {
	case !ok:
		return nil, nil, &notInteger
	case count > int64(len(args)-3):
		r = failure("ERR Number of keys can't be greater than number of args")
		return nil, nil, &r
	case count < 0:
		r = failure("ERR Number of keys can't be negative")
		return nil, nil, &r
	}
	return args[3 : 3+count], args[3+count:], nil
}

// loadScript compiles a script, unless it is compiled, and makes it known to EVALSHA.
func (n *Node) loadScript(digest, source string) *reply {
	if _, ok := n.process.scripts[digest]; ok {
		return nil
	}
	if _, err := compileScript(digest, source); err != nil {
		r := oneLine("ERR Error compiling script (new function): " + err.Error())
		return &r
	}
	n.process.scripts[digest] = source
	return nil
}

// runScript runs a known script for a client. The client's database stays selected.
func (n *Node) runScript(s *session, digest string, keys, argv []string) reply {
	if n.engine == nil {
		n.engine = borrowEngine(n)
	}
	db := s.db
	answer := n.engine.run(s, digest, n.process.scripts[digest], keys, argv)
	s.db = db
	return answer
}

// script serves SCRIPT LOAD, EXISTS and FLUSH.
func script(n *Node, _ *session, args []string) reply {
	sub := strings.ToLower(args[1])
	switch {
	case sub == "load" && len(args) == 3:
		digest := digestOf(args[2])
		if fail := n.loadScript(digest, args[2]); fail != nil {
			return *fail
		}
		return bulk(digest)
	case sub == "exists" && len(args) >= 3:
		var items []reply
		for _, digest := range args[2:] {
			known := 0
			if _, ok := n.process.scripts[strings.ToLower(digest)]; ok {
				known = 1
			}
			items = append(items, integer(known))
		}
		return array(items...)
	case sub == "flush" && (len(args) == 2 || len(args) == 3 && isFlushMode(args[2])):
		clear(n.process.scripts)
		return replyOK
	case sub == "flush":
		return failure("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
	case sub == "load", sub == "exists":
		return wrongArity("script|" + sub)
	}
	return unknownSubcommand(args)
}
