package fakeredis

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// sortedSet is a ZSET: members ordered by score, then by name. Insertion moves the tail of a slice,
// which is fine for the few thousand members of a test.
type sortedSet struct {
	scores map[string]float64
	order  []member
}

type member struct {
	name  string
	score float64
}

func compareMembers(a, b member) int {
	return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.name, b.name))
}

func newSortedSet() *sortedSet { return &sortedSet{scores: make(map[string]float64)} }

// add sets a score.
func (z *sortedSet) add(name string, score float64) {
	z.remove(name)
	m := member{name, score}
	i, _ := slices.BinarySearchFunc(z.order, m, compareMembers)
	z.order = slices.Insert(z.order, i, m)
	z.scores[name] = score
}

// remove removes a member and reports whether it was there.
func (z *sortedSet) remove(name string) bool {
	score, ok := z.scores[name]
	if !ok {
		return false
	}
	i, _ := slices.BinarySearchFunc(z.order, member{name, score}, compareMembers)
	z.order = slices.Delete(z.order, i, i+1)
	delete(z.scores, name)
	return true
}

// ranks returns the members from rank start to stop, both included. Negative ranks count from the
// end.
func (z *sortedSet) ranks(start, stop int64) []member {
	size := int64(len(z.order))
	if start < 0 {
		start = max(start+size, 0)
	}
	if stop < 0 {
		stop += size
	}
	stop = min(stop, size-1)
	if start > stop {
		return nil
	}
	return z.order[start : stop+1]
}

// bound is an end of a score range.
type bound struct {
	score float64
	open  bool // excludes the score itself
}

// parseBounds reads both ends of a score range.
func parseBounds(from, to string) (low, high bound, ok bool) {
	low, ok1 := parseBound(from)
	high, ok2 := parseBound(to)
	return low, high, ok1 && ok2
}

func parseBound(text string) (bound, bool) {
	rest, open := strings.CutPrefix(text, "(")
	score, ok := parseScore(rest)
	return bound{score, open}, ok
}

// between returns the members from low to high.
func (z *sortedSet) between(low, high bound) []member {
	from := sort.Search(len(z.order), func(i int) bool {
		return z.order[i].score > low.score || (!low.open && z.order[i].score == low.score)
	})
	to := sort.Search(len(z.order), func(i int) bool {
		return z.order[i].score > high.score || (high.open && z.order[i].score == high.score)
	})
	return z.order[from:max(from, to)]
}

// parseScore reads a double as strtod does.
func parseScore(text string) (float64, bool) {
	score, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(score, 0) {
		return 0, false
	}
	return score, !math.IsNaN(score) && !strings.Contains(text, "_")
}

// formatScore writes a double as Redis 7.0 does for RESP2.
func formatScore(score float64) string { return formatNumber(score, 17) }

// formatNumber is C's %.<digits>g.
func formatNumber(x float64, digits int) string {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(x, 'g', -1, 64), "+"))
	}
	return strconv.FormatFloat(x, 'g', digits, 64)
}

func sortedSetCommands() []command {
	return []command{
		{name: "zadd", arity: -4, run: zadd, writes: true, of: aSortedSet},
		{name: "zrem", arity: -3, run: zrem, writes: true, of: aSortedSet},
		{name: "zcard", arity: 2, run: zcard, of: aSortedSet},
		{name: "zcount", arity: 4, run: zcount, of: aSortedSet},
		{name: "zscore", arity: 3, run: zscore, of: aSortedSet},
		{name: "zrange", arity: -4, run: zrange, of: aSortedSet},
		{name: "zrangebyscore", arity: -4, run: zrangeByScore, of: aSortedSet},
		{name: "zremrangebyscore", arity: 4, run: zremRangeByScore, writes: true, of: aSortedSet},
		{name: "zpopmin", arity: 2, run: zpopMin, writes: true, of: aSortedSet},
	}
}

// sortedSetAt returns the sorted set at a key, or an empty one that is stored nowhere.
func (n *Node) sortedSetAt(s *session, key string) *sortedSet {
	if e := n.lookup(s.db, key); e != nil {
		return e.set
	}
	return newSortedSet()
}

// zadd serves ZADD with and without NX.
func zadd(n *Node, s *session, args []string) reply {
	rest, onlyNew := args[2:], false
	if strings.EqualFold(rest[0], "nx") {
		rest, onlyNew = rest[1:], true
	}
	if len(rest)%2 != 0 || len(rest) == 0 {
		return syntax
	}
	scores := make([]float64, len(rest)/2)
	for i := range scores {
		var ok bool
		if scores[i], ok = parseScore(rest[2*i]); !ok {
			return failure("ERR value is not a valid float")
		}
	}
	z, added := n.sortedSetAt(s, args[1]), 0
	if len(z.order) == 0 {
		n.store(s.db, args[1], &entry{set: z})
	}
	for i, score := range scores {
		name := rest[2*i+1]
		old, found := z.scores[name]
		switch {
		case !found:
			z.add(name, score)
			added++
		case !onlyNew && score != old:
			z.add(name, score)
		}
	}
	return integer(added)
}

func zrem(n *Node, s *session, args []string) reply {
	z, count := n.sortedSetAt(s, args[1]), 0
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
	return integer(len(n.sortedSetAt(s, args[1]).order))
}

func zcount(n *Node, s *session, args []string) reply {
	low, high, ok := parseBounds(args[2], args[3])
	if !ok {
		return notFloats
	}
	return integer(len(n.sortedSetAt(s, args[1]).between(low, high)))
}

func zscore(n *Node, s *session, args []string) reply {
	score, ok := n.sortedSetAt(s, args[1]).scores[args[2]]
	if !ok {
		return replyNil
	}
	return bulk(formatScore(score))
}

// zrange serves ZRANGE by rank, with and without WITHSCORES.
func zrange(n *Node, s *session, args []string) reply {
	withScores := len(args) == 5 && strings.EqualFold(args[4], "withscores")
	if len(args) > 4 && !withScores {
		return unsupported("ZRANGE " + strings.Join(args[4:], " "))
	}
	start, ok1 := parseInt(args[2])
	stop, ok2 := parseInt(args[3])
	if !ok1 || !ok2 {
		return notInteger
	}
	return membersReply(n.sortedSetAt(s, args[1]).ranks(start, stop), withScores)
}

// zrangeByScore serves ZRANGEBYSCORE with the options of any order.
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
	low, high, ok := parseBounds(args[2], args[3])
	if !ok {
		return notFloats
	}
	found := n.sortedSetAt(s, args[1]).between(low, high)
	if size := int64(len(found)); offset < 0 || offset >= size {
		found = nil
	} else if found = found[offset:]; count >= 0 {
		found = found[:min(count, size-offset)]
	}
	return membersReply(found, withScores)
}

func zremRangeByScore(n *Node, s *session, args []string) reply {
	low, high, ok := parseBounds(args[2], args[3])
	if !ok {
		return notFloats
	}
	z := n.sortedSetAt(s, args[1])
	found := slices.Clone(z.between(low, high))
	for _, m := range found {
		z.remove(m.name)
	}
	n.dropEmpty(s, args[1], z)
	return integer(len(found))
}

// zpopMin serves ZPOPMIN without a count.
func zpopMin(n *Node, s *session, args []string) reply {
	z := n.sortedSetAt(s, args[1])
	popped := slices.Clone(z.order[:min(1, len(z.order))])
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
