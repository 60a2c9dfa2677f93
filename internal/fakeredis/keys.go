package fakeredis

import (
	"math"
	"slices"
	"strings"
)

func keyCommands() []command {
	return []command{
		{name: "get", arity: 2, run: get},
		{name: "mget", arity: -2, run: mget},
		{name: "set", arity: -3, run: set, writes: true},
		{name: "del", arity: -2, run: del, writes: true},
		{name: "exists", arity: -2, run: exists},
		{name: "pexpire", arity: 3, run: expire, writes: true},
		{name: "pexpireat", arity: 3, run: expire, writes: true},
		{name: "pttl", arity: 2, run: pttl},
		{name: "keys", arity: 2, run: keys},
		{name: "scan", arity: -2, run: scan},
		{name: "strlen", arity: 2, run: strlen},
		{name: "flushdb", arity: 1, run: flushDB, writes: true},
		{name: "flushall", arity: 1, run: flushAll, writes: true},
	}
}

func get(n *Node, s *session, args []string) reply {
	return stringAt(n.lookup(s.db, args[1]))
}

// mget answers nil for a key of another type, too.
func mget(n *Node, s *session, args []string) reply {
	items := make([]reply, len(args)-1)
	for i, key := range args[1:] {
		if items[i] = stringAt(n.lookup(s.db, key)); items[i].kind == kindError {
			items[i] = replyNil
		}
	}
	return array(items...)
}

func stringAt(e *entry) reply {
	switch {
	case e == nil:
		return replyNil
	case e.kind() != aString:
		return wrongType
	}
	return bulk(e.text)
}

// setOptions are the options of SET.
type setOptions struct {
	ifAbsent, get bool
	expires       int64 // Unix milliseconds, 0 for never
}

func set(n *Node, s *session, args []string) reply {
	options, fail := n.parseSet(args[3:])
	if fail != nil {
		return *fail
	}
	old, answer := n.lookup(s.db, args[1]), replyOK
	if options.get {
		if answer = stringAt(old); answer.kind == kindError {
			return answer
		}
	}
	if options.ifAbsent && old != nil {
		return replyNil
	}
	n.store(s.db, args[1], &entry{text: args[2], expires: options.expires})
	return answer
}

func (n *Node) parseSet(args []string) (options setOptions, fail *reply) {
	for i := 0; i < len(args); i++ {
		switch option := strings.ToUpper(args[i]); {
		case option == "NX" && !options.get:
			options.ifAbsent = true
		case option == "GET" && !options.ifAbsent:
			options.get = true
		case (option == "EX" || option == "PX") && options.expires == 0 && i+1 < len(args):
			i++
			if options.expires, fail = n.expiry(args[i], option); fail != nil {
				return options, fail
			}
		default:
			r := unsupported("SET " + strings.Join(args[i:], " "))
			return options, &r
		}
	}
	return options, nil
}

// expiry reads a time to live in seconds (EX) or milliseconds (PX). It returns Unix milliseconds.
func (n *Node) expiry(text, unit string) (int64, *reply) {
	value, ok := parseInt(text)
	if !ok {
		return 0, &notInteger
	}
	scale := int64(1)
	if unit == "EX" {
		scale = 1000
	}
	if value <= 0 || value > (math.MaxInt64-n.nowMillis())/scale {
		return 0, invalidExpire("set")
	}
	return n.nowMillis() + value*scale, nil
}

func invalidExpire(command string) *reply {
	r := failure("ERR invalid expire time in '" + command + "' command")
	return &r
}

func del(n *Node, s *session, args []string) reply {
	count := 0
	for _, key := range args[1:] {
		if n.remove(s.db, key) {
			count++
		}
	}
	return integer(count)
}

func exists(n *Node, s *session, args []string) reply {
	count := 0
	for _, key := range args[1:] {
		if n.lookup(s.db, key) != nil {
			count++
		}
	}
	return integer(count)
}

// expire serves PEXPIRE and PEXPIREAT. A key whose time has come is deleted.
func expire(n *Node, s *session, args []string) reply {
	when, ok := parseInt(args[2])
	if !ok {
		return notInteger
	}
	if name := strings.ToLower(args[0]); name == "pexpire" {
		if when > math.MaxInt64-n.nowMillis() {
			return *invalidExpire(name)
		}
		when += n.nowMillis()
	}
	e := n.lookup(s.db, args[1])
	switch {
	case e == nil:
		return integer(0)
	case when <= n.nowMillis():
		n.remove(s.db, args[1])
	default:
		e.expires = when
	}
	return integer(1)
}

func pttl(n *Node, s *session, args []string) reply {
	e := n.lookup(s.db, args[1])
	switch {
	case e == nil:
		return integer(-2)
	case e.expires == 0:
		return integer(-1)
	}
	return integer(e.expires - n.nowMillis())
}

// keys serves KEYS for the pattern of all keys.
func keys(n *Node, s *session, args []string) reply {
	if args[1] != "*" {
		return unsupported("KEYS " + args[1])
	}
	return bulks(n.liveKeys(s.db)...)
}

// scan serves SCAN with all keys in one page, for patterns with one * at their end.
func scan(n *Node, s *session, args []string) reply {
	prefix := ""
	if len(args) > 3 && strings.EqualFold(args[2], "MATCH") {
		prefix = strings.TrimSuffix(args[3], "*")
	}
	if strings.ContainsAny(prefix, `*?[\`) || args[1] != "0" {
		return unsupported("SCAN " + strings.Join(args[1:], " "))
	}
	found := slices.DeleteFunc(n.liveKeys(s.db), func(key string) bool { return !strings.HasPrefix(key, prefix) })
	return array(bulk("0"), bulks(found...))
}

func strlen(n *Node, s *session, args []string) reply {
	text := stringAt(n.lookup(s.db, args[1]))
	if text.kind == kindError {
		return text
	}
	return integer(int64(len(text.text)))
}

func flushDB(n *Node, s *session, _ []string) reply {
	n.disk[s.db] = nil
	return replyOK
}

func flushAll(n *Node, _ *session, _ []string) reply {
	n.disk = disk{}
	return replyOK
}
