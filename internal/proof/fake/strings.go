package fake

import (
	"math"
	"strconv"
	"strings"
)

func stringCommands() []command {
	return []command{
		{name: "get", arity: 2, run: get},
		{name: "mget", arity: -2, run: mget},
		{name: "set", arity: -3, run: set, writes: true},
		{name: "incr", arity: 2, run: incr, writes: true},
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
	case e.set != nil:
		return wrongType
	}
	return bulk(e.text)
}

// setOptions are the options of SET.
type setOptions struct {
	ifAbsent, ifPresent, get, keepTTL bool
	expires                           int64 // Unix milliseconds, 0 for never
}

func set(n *Node, s *session, args []string) reply {
	options, fail := n.parseSet(args[3:])
	if fail != nil {
		return *fail
	}
	key, value := args[1], args[2]
	old := n.lookup(s.db, key)
	answer := replyOK
	if options.get {
		if answer = stringAt(old); answer.kind == kindError {
			return answer
		}
	}
	if (options.ifAbsent && old != nil) || (options.ifPresent && old == nil) {
		if options.get {
			return answer
		}
		return replyNil
	}
	if options.keepTTL && old != nil {
		options.expires = old.expires
	}
	n.store(s.db, key, &entry{text: value, expires: options.expires})
	return answer
}

func (n *Node) parseSet(args []string) (options setOptions, fail *reply) {
	var unit, expiry string // EX, PX, EXAT or PXAT, and its argument
	for i := 0; i < len(args); i++ {
		switch option := strings.ToUpper(args[i]); option {
		case "NX":
			options.ifAbsent = true
		case "XX":
			options.ifPresent = true
		case "GET":
			options.get = true
		case "KEEPTTL":
			options.keepTTL = true
		case "EX", "PX", "EXAT", "PXAT":
			if unit != "" || i+1 == len(args) {
				return options, &syntax
			}
			i++
			unit, expiry = option, args[i]
		default:
			return options, &syntax
		}
	}
	if (options.ifAbsent && options.ifPresent) || (options.keepTTL && unit != "") {
		return options, &syntax
	}
	if unit != "" {
		options.expires, fail = n.expiry(expiry, unit, "set")
	}
	return options, fail
}

// expiry reads a time to live, or a time, which must be positive. It returns Unix milliseconds.
func (n *Node) expiry(text, unit, command string) (int64, *reply) {
	value, ok := parseInt(text)
	if !ok {
		return 0, &notInteger
	}
	if value <= 0 {
		return 0, invalidExpire(command)
	}
	return n.expiryOf(value, unit, command)
}

// expiryOf turns a time to live (EX, PX) or a time (EXAT, PXAT) into Unix milliseconds.
func (n *Node) expiryOf(value int64, unit, command string) (int64, *reply) {
	if strings.HasPrefix(unit, "EX") {
		if value > math.MaxInt64/1000 || value < math.MinInt64/1000 {
			return 0, invalidExpire(command)
		}
		value *= 1000
	}
	if strings.HasSuffix(unit, "AT") {
		return value, nil
	}
	if value > math.MaxInt64-n.nowMillis() {
		return 0, invalidExpire(command)
	}
	return value + n.nowMillis(), nil
}

func invalidExpire(command string) *reply {
	r := failure("ERR invalid expire time in '" + command + "' command")
	return &r
}

func incr(n *Node, s *session, args []string) reply {
	e := n.lookup(s.db, args[1])
	if e == nil {
		e = &entry{text: "0"}
		n.store(s.db, args[1], e)
	}
	if e.set != nil {
		return wrongType
	}
	value, ok := parseInt(e.text)
	switch {
	case !ok:
		return notInteger
	case value == math.MaxInt64:
		return failure("ERR increment or decrement would overflow")
	}
	e.text = strconv.FormatInt(value+1, 10)
	return integer(value + 1)
}
