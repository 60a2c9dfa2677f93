package fake

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// An acquire script, at a time that tostring would round.
func TestFencingScriptReturnsExactNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const script = `
			if not redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) then return false end
			local fence = math.max((redis.call('get', KEYS[2]) or 0) + 1, tonumber(ARGV[3]))
			local text = string.format('%.0f', fence)
			redis.call('set', KEYS[2], text, 'px', 600000)
			return text`
		n := newNode(t)
		c := dial(t, n)
		acquire := func(ts string) string { return do(c, "EVAL", script, "2", "k", "fence", "v", "100", ts) }
		assert.Equal(t, `"1800000000000001"`, acquire("1800000000000001"))
		assert.Equal(t, "<nil>", acquire("1800000000000009"))
		time.Sleep(101 * time.Millisecond)
		assert.Equal(t, `"1800000000000002"`, acquire("5"))
		assert.Equal(t, "-ERR Error compiling script (new function): user_script", do(c, "EVAL", "return +", "0")[:55])
		assert.Equal(t, []string{"fence", "k"}, n.Keys())
	})
}

// An engine serves many nodes, one after another: a script must leave nothing for the next.
func TestScriptsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, newNode(t))
		for _, script := range []string{
			"x = 1", "_G.x = 1", "rawset(_G, 'x', 1)", "setmetatable(_G, {})", "string.x = 1", "redis.x = 1",
			"getmetatable('').x = 1", "local function f() return f() + 1 end return f()",
		} {
			assert.Equal(t, "-", do(c, "EVAL", script, "0")[:1], script)
		}
		assert.Equal(t, "[<nil> <nil> 0 0]", do(c, "EVAL", "return {string.x or false, redis.x or false, #KEYS, #ARGV}", "0"))
		assert.Equal(t, "1", do(c, "EVAL", "return 1", "0"))
	})
}
