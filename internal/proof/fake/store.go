package fake

import (
	"slices"
	"strconv"
	"time"
)

// databases is how many databases there are, as in Redis's default configuration.
const databases = 16

// disk holds the keys of each database. It survives a restart that keeps data.
type disk [databases]map[string]*entry

// entry is the value of a key: a string or a sorted set.
type entry struct {
	text    string
	set     *sortedSet // nil for a string
	expires int64      // the key is gone after this Unix millisecond; 0: never
}

// nowMillis returns the time by which the running command decides about expiry, truncated to
// milliseconds as in Redis.
func (n *Node) nowMillis() int64 { return n.now / int64(time.Millisecond/time.Microsecond) }

// lookup returns a live key, or nil. Keys expire here.
func (n *Node) lookup(db int, key string) *entry {
	e := n.disk[db][key]
	if e != nil && e.expires != 0 && n.nowMillis() > e.expires {
		delete(n.disk[db], key)
		return nil
	}
	return e
}

// store sets a key.
func (n *Node) store(db int, key string, e *entry) {
	n.noteChange(db, key, e.text)
	if n.disk[db] == nil {
		n.disk[db] = make(map[string]*entry)
	}
	n.disk[db][key] = e
}

// remove deletes a key and reports whether it was there.
func (n *Node) remove(db int, key string) bool {
	if n.lookup(db, key) == nil {
		return false
	}
	n.noteChange(db, key, "")
	delete(n.disk[db], key)
	return true
}

// liveKeys returns the keys of a database, sorted, and drops expired ones.
func (n *Node) liveKeys(db int) []string {
	keys := make([]string, 0, len(n.disk[db]))
	for key := range n.disk[db] {
		if n.lookup(db, key) != nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// sortedSetOf returns the sorted set at a key, nil if there is none, or the error for a wrong type.
func (n *Node) sortedSetOf(s *session, key string) (*sortedSet, *reply) {
	e := n.lookup(s.db, key)
	switch {
	case e == nil:
		return nil, nil
	case e.set == nil:
		return nil, &wrongType
	}
	return e.set, nil
}

// parseInt reads an integer as strictly as Redis does: no "-0", no leading zeros, no spaces.
func parseInt(text string) (int64, bool) {
	value, err := strconv.ParseInt(text, 10, 64)
	return value, err == nil && (strconv.FormatInt(value, 10) == text)
}
