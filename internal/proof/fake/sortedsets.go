package fake

import (
	"slices"
	"strings"
)

func sortedSetCommands() []command {
	return []command{
		{name: "zadd", arity: -4, run: zadd, writes: true},
		{name: "zrem", arity: -3, run: zrem, writes: true},
		{name: "zcard", arity: 2, run: zcard},
		{name: "zscore", arity: 3, run: zscore},
		{name: "zrange", arity: -4, run: zrange},
		{name: "zrangebyscore", arity: -4, run: zrangeByScore},
		{name: "zremrangebyscore", arity: 4, run: zremRangeByScore, writes: true},
		{name: "zpopmin", arity: -2, run: zpopMin, writes: true},
	}
}

// zaddOptions are the options between the key and the scores of ZADD.
type zaddOptions struct{ ifAbsent, ifPresent, ifGreater, ifLess, changed bool }

func zadd(n *Node, s *session, args []string) reply {
	options, rest, fail := parseZadd(args[2:])
	if fail != nil {
		return *fail
	}
	members := make([]member, 0, len(rest)/2)
	for i := 0; i < len(rest); i += 2 {
		score, ok := parseScore(rest[i])
		if !ok {
			return failure("ERR value is not a valid float")
		}
		members = append(members, member{rest[i+1], score})
	}
	z, fail := n.sortedSetOf(s, args[1])
	if fail != nil {
		return *fail
	}
	if z == nil {
		if options.ifPresent {
			return integer(0)
		}
		z = newSortedSet()
		n.store(s.db, args[1], &entry{set: z})
	}
	added, updated := 0, 0
	for _, m := range members {
		old, found := z.scores[m.name]
		switch {
		case !found && !options.ifPresent:
			z.add(m.name, m.score)
			added++
		case !found, options.ifAbsent, options.ifGreater && m.score <= old, options.ifLess && m.score >= old:
		case m.score != old:
			z.add(m.name, m.score)
			updated++
		}
	}
	if options.changed {
		added += updated
	}
	return integer(added)
}

func parseZadd(args []string) (options zaddOptions, rest []string, fail *reply) {
	for len(args) > 0 {
		switch strings.ToUpper(args[0]) {
		case "NX":
			options.ifAbsent = true
		case "XX":
			options.ifPresent = true
		case "GT":
			options.ifGreater = true
		case "LT":
			options.ifLess = true
		case "CH":
			options.changed = true
		case "INCR":
			r := unsupported("ZADD INCR")
			return options, nil, &r
		default:
			return options, args, options.check(args)
		}
		args = args[1:]
	}
	return options, nil, &syntax
}

func (o zaddOptions) check(rest []string) *reply {
	if len(rest)%2 != 0 {
		return &syntax
	}
	if o.ifAbsent && o.ifPresent {
		r := failure("ERR XX and NX options at the same time are not compatible")
		return &r
	}
	if (o.ifGreater && o.ifLess) || (o.ifAbsent && (o.ifGreater || o.ifLess)) {
		r := failure("ERR GT, LT, and/or NX options at the same time are not compatible")
		return &r
	}
	return nil
}

func zrem(n *Node, s *session, args []string) reply {
	z, fail := n.sortedSetOf(s, args[1])
	if fail != nil {
		return *fail
	}
	if z == nil {
		return integer(0)
	}
	count := 0
	for _, name := range args[2:] {
		if z.remove(name) {
			count++
		}
	}
	n.dropEmpty(s, args[1], z)
	return integer(count)
}

// dropEmpty deletes the key of a sorted set that has no members left.
func (n *Node) dropEmpty(s *session, key string, z *sortedSet) {
	if len(z.order) == 0 {
		n.remove(s.db, key)
	}
}

func zcard(n *Node, s *session, args []string) reply {
	z, fail := n.sortedSetOf(s, args[1])
	if fail != nil {
		return *fail
	}
	if z == nil {
		return integer(0)
	}
	return integer(len(z.order))
}

func zscore(n *Node, s *session, args []string) reply {
	z, fail := n.sortedSetOf(s, args[1])
	if fail != nil {
		return *fail
	}
	if z == nil {
		return replyNil
	}
	score, ok := z.scores[args[2]]
	if !ok {
		return replyNil
	}
	return bulk(formatScore(score))
}

// zrange serves ZRANGE by rank, with REV and WITHSCORES.
func zrange(n *Node, s *session, args []string) reply {
	var reverse, withScores bool
	for _, option := range args[4:] {
		switch strings.ToUpper(option) {
		case "REV":
			reverse = true
		case "WITHSCORES":
			withScores = true
		case "BYSCORE", "BYLEX", "LIMIT":
			return unsupported("ZRANGE " + option)
		default:
			return syntax
		}
	}
	start, ok1 := parseInt(args[2])
	stop, ok2 := parseInt(args[3])
	if !ok1 || !ok2 {
		return notInteger
	}
	z, fail := n.sortedSetOf(s, args[1])
	if fail != nil {
		return *fail
	}
	if z == nil {
		return array()
	}
	if reverse {
		found := slices.Clone(z.ranks(-1-stop, -1-start))
		slices.Reverse(found)
		return membersReply(found, withScores)
	}
	return membersReply(z.ranks(start, stop), withScores)
}

func zrangeByScore(n *Node, s *session, args []string) reply {
	withScores, offset, count := false, int64(0), int64(-1)
	for i := 4; i < len(args); i++ {
		switch option := strings.ToUpper(args[i]); {
		case option == "WITHSCORES":
			withScores = true
		case option == "LIMIT" && i+2 < len(args):
			var ok1, ok2 bool
			offset, ok1 = parseInt(args[i+1])
			count, ok2 = parseInt(args[i+2])
			if !ok1 || !ok2 {
				return notInteger
			}
			i += 2
		default:
			return syntax
		}
	}
	low, ok1 := parseBound(args[2])
	high, ok2 := parseBound(args[3])
	if !ok1 || !ok2 {
		return failure("ERR min or max is not a float")
	}
	z, fail := n.sortedSetOf(s, args[1])
	if fail != nil {
		return *fail
	}
	if z == nil || offset < 0 {
		return array()
	}
	found := z.between(low, high)
	found = found[min(offset, int64(len(found))):]
	if count >= 0 {
		found = found[:min(count, int64(len(found)))]
	}
	return membersReply(found, withScores)
}

func zremRangeByScore(n *Node, s *session, args []string) reply {
	low, ok1 := parseBound(args[2])
	high, ok2 := parseBound(args[3])
	if !ok1 || !ok2 {
		return failure("ERR min or max is not a float")
	}
	z, fail := n.sortedSetOf(s, args[1])
	if fail != nil {
		return *fail
	}
	if z == nil {
		return integer(0)
	}
	found := slices.Clone(z.between(low, high))
	for _, m := range found {
		z.remove(m.name)
	}
	n.dropEmpty(s, args[1], z)
	return integer(len(found))
}

func zpopMin(n *Node, s *session, args []string) reply {
	count := int64(1)
	if len(args) > 3 {
		return syntax
	}
	if len(args) == 3 {
		var ok bool
		if count, ok = parseInt(args[2]); !ok || count < 0 {
			return failure("ERR value is out of range, must be positive")
		}
	}
	z, fail := n.sortedSetOf(s, args[1])
	if fail != nil {
		return *fail
	}
	if z == nil {
		return array()
	}
	popped := slices.Clone(z.order[:min(count, int64(len(z.order)))])
	for _, m := range popped {
		z.remove(m.name)
	}
	n.dropEmpty(s, args[1], z)
	return membersReply(popped, true)
}

func membersReply(members []member, withScores bool) reply {
	items := make([]reply, 0, 2*len(members))
	for _, m := range members {
		items = append(items, bulk(m.name))
		if withScores {
			items = append(items, bulk(formatScore(m.score)))
		}
	}
	return array(items...)
}
