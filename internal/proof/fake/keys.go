package fake

import "strings"

func keyCommands() []command {
	return []command{
		{name: "del", arity: -2, run: del, writes: true},
		{name: "unlink", arity: -2, run: del, writes: true},
		{name: "exists", arity: -2, run: exists},
		{name: "type", arity: 2, run: typeOf},
		{name: "expire", arity: -3, run: expire, writes: true},
		{name: "pexpire", arity: -3, run: expire, writes: true},
		{name: "pexpireat", arity: -3, run: expire, writes: true},
		{name: "ttl", arity: 2, run: ttl},
		{name: "pttl", arity: 2, run: ttl},
		{name: "keys", arity: 2, run: keys},
		{name: "dbsize", arity: 1, run: dbsize},
		{name: "flushdb", arity: -1, run: flush, writes: true},
		{name: "flushall", arity: -1, run: flush, writes: true},
	}
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

func typeOf(n *Node, s *session, args []string) reply {
	e := n.lookup(s.db, args[1])
	switch {
	case e == nil:
		return status("none")
	case e.set != nil:
		return status("zset")
	}
	return status("string")
}

// expiryUnits are those of the commands that [expire] serves, in the words of SET.
var expiryUnits = map[string]string{"expire": "EX", "pexpire": "PX", "pexpireat": "PXAT"}

// expire serves EXPIRE, PEXPIRE and PEXPIREAT.
func expire(n *Node, s *session, args []string) reply {
	name := strings.ToLower(args[0])
	unit := expiryUnits[name]
	allowed, fail := parseExpireConditions(args[3:])
	if fail != nil {
		return *fail
	}
	value, ok := parseInt(args[2])
	if !ok {
		return notInteger
	}
	when, fail := n.expiryOf(value, unit, name)
	if fail != nil {
		return *fail
	}
	e := n.lookup(s.db, args[1])
	if e == nil || !allowed(e.expires, when) {
		return integer(0)
	}
	if when <= n.nowMillis() {
		n.remove(s.db, args[1])
	} else {
		e.expires = when
	}
	return integer(1)
}

// parseExpireConditions reads NX, XX, GT and LT. It returns a function that reports whether one
// expiry (0 for none) may replace another.
func parseExpireConditions(options []string) (allowed func(old, when int64) bool, fail *reply) {
	var ifAbsent, ifPresent, ifGreater, ifLess bool
	for _, option := range options {
		switch strings.ToUpper(option) {
		case "NX":
			ifAbsent = true
		case "XX":
			ifPresent = true
		case "GT":
			ifGreater = true
		case "LT":
			ifLess = true
		default:
			r := oneLine("ERR Unsupported option " + option)
			return nil, &r
		}
	}
	if ifAbsent && (ifPresent || ifGreater || ifLess) {
		r := failure("ERR NX and XX, GT or LT options at the same time are not compatible")
		return nil, &r
	}
	if ifGreater && ifLess {
		r := failure("ERR GT and LT options at the same time are not compatible")
		return nil, &r
	}
	return func(old, when int64) bool {
		switch {
		case ifAbsent && old != 0, ifPresent && old == 0:
			return false
		case ifGreater && (old == 0 || when <= old): // no expiry counts as the latest
			return false
		case ifLess && old != 0 && when >= old:
			return false
		}
		return true
	}, nil
}

// ttl serves TTL and PTTL.
func ttl(n *Node, s *session, args []string) reply {
	e := n.lookup(s.db, args[1])
	switch {
	case e == nil:
		return integer(-2)
	case e.expires == 0:
		return integer(-1)
	}
	left := e.expires - n.nowMillis()
	if strings.EqualFold(args[0], "ttl") {
		left = (left + 500) / 1000 // rounded, as Redis does
	}
	return integer(left)
}

// keys serves KEYS for patterns without special characters but a * at the end.
func keys(n *Node, s *session, args []string) reply {
	prefix, isPrefix := strings.CutSuffix(args[1], "*")
	if strings.ContainsAny(prefix, `*?[\`) {
		return unsupported("KEYS " + args[1])
	}
	var found []string
	for _, key := range n.liveKeys(s.db) {
		if key == args[1] || (isPrefix && strings.HasPrefix(key, prefix)) {
			found = append(found, key)
		}
	}
	return bulks(found...)
}

func dbsize(n *Node, s *session, _ []string) reply { return integer(len(n.liveKeys(s.db))) }

// flush serves FLUSHALL and FLUSHDB.
func flush(n *Node, s *session, args []string) reply {
	if len(args) > 2 || (len(args) == 2 && !isFlushMode(args[1])) {
		return syntax
	}
	if strings.EqualFold(args[0], "flushdb") {
		n.disk[s.db] = nil
	} else {
		n.disk = disk{}
	}
	return replyOK
}

func isFlushMode(mode string) bool {
	return strings.EqualFold(mode, "sync") || strings.EqualFold(mode, "async")
}
