package wire

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var cmdstat = regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+)`)

// commands runs a script, and returns the commands that it executed: each with how often.
func (s *server) commands(args []any, files ...string) string {
	s.t.Helper()
	s.do("CONFIG", "RESETSTAT")
	s.onA(args, files...)
	counts := map[string]string{}
	for _, m := range cmdstat.FindAllStringSubmatch(string(s.do("INFO", "commandstats").([]byte)), -1) {
		if name := m[1]; !strings.HasPrefix(name, "eval") && name != "config|resetstat" {
			counts[name] = m[2]
		}
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		n, err := strconv.Atoi(counts[name])
		require.NoError(s.t, err)
		words = append(words, strings.Repeat(" "+name, n)[1:])
	}
	return strings.Join(words, " ")
}

// Readers cost a mutex nothing where there are none.
func TestAMutexExecutesNoCommandForReaders(t *testing.T) {
	s := newServer(t)
	s.listen(t)
	mine, other, foreign := pairForm+"a", pairForm+"c", "foreign"
	wait := func(value, process string) []any { return []any{value, 60000, 50, 1, process, 0, 100, ""} }
	for _, test := range []struct {
		name    string
		holder  string // of "a"
		waiting string // on its list
		args    []any
		files   []string
		want    string
	}{
		{"acquire", "", "", []any{mine, 60000}, []string{"acquire"}, "set"},
		{"acquire, refused", other, "", []any{mine, 60000}, []string{"acquire"}, "set"},
		{"wait, granted", "", "", wait(mine, "alive"), []string{"wait"}, "get get set zrem"},
		{"wait, confirmed", mine, "", wait(mine, "alive"), []string{"wait"}, "get pttl set zrem"},
		{"wait, refused", other, "", wait(mine, "alive"), []string{"wait"}, "get pexpire pttl set time zadd zcard zscore"},
		{"wait, refused by another library", foreign, "", wait(mine, "alive"), []string{"wait"}, "get get pexpire pttl set set time zadd zcard zrange zscore"},
		{"release", mine, "", []any{mine, 50}, releases, "del get"},
		{"release, handed over", mine, "alive:" + other, []any{mine, 50}, releases, "del del exists get publish pubsub|numsub set zpopmin"},
		{"release, to a dead waiter", mine, "dead:" + other, []any{mine, 50}, releases, "del del del exists get pubsub|numsub zpopmin zpopmin"},
		{"release by a waiter that is granted", mine, "", []any{mine, 50, "alive"}, releases, "del del exists get zpopmin zrem"},
		{"release by a waiter that leaves", other, "alive:" + mine, []any{mine, 50, "alive"}, releases, "del get get zcard zrem zscore zscore"},
		{"retain", mine, "", []any{mine, 50, "", "", 30000}, retains, "get pexpire pttl zrange zrem"},
		{"retain beside a waiter", mine, "alive:" + other, []any{mine, 50, "", "", 30000}, retains, "get pexpire pttl publish pubsub|numsub zrange zrem"},
		{"extend", mine, "", []any{mine, 60000}, []string{"extend"}, "get pexpire"},
		{"extend what is gone", "", "", []any{mine, 60000}, []string{"extend"}, "get"},
		{"heal", "", "", []any{mine, "!60000"}, []string{"extend"}, "get set"},
	} {
		s.do("FLUSHALL")
		if test.holder != "" {
			s.do("SET", "a", test.holder, "PX", 60000)
		}
		if test.waiting != "" {
			s.do("ZADD", waitKey+"a", 1, test.waiting)
			s.do("SET", "redquorum:waits:a", "")
		}
		assert.Equal(t, test.want, s.commands(test.args, test.files...), test.name)
	}
}
