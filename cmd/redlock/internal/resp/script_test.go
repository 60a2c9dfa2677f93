package resp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What scripts of lock libraries do, each in the words of nobody.
const (
	compareAndDelete = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
	deleteOrTell     = `local v = redis.call('get', KEYS[1]); if v == false then return -1 elseif v == ARGV[1] then redis.call('unlink', KEYS[1]) return 1 end return 0`
	deleteAndPublish = `if redis.call('get', KEYS[1]) ~= ARGV[1] then return nil end redis.call('publish', KEYS[1], 'free') return redis.call('del', KEYS[1])`
	extendIfMine     = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`
	addToWhatIsLeft  = `local t = redis.call('get', KEYS[1]) if not t or t ~= ARGV[1] then return 0 end
		local left = redis.call('pttl', KEYS[1]) if left < 0 then return 0 end redis.call('pexpire', KEYS[1], ARGV[2] + left) return 1`
	setAgainIfMine = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) end return false`
	acquireAll     = `for _, k in ipairs(KEYS) do if redis.call('exists', k) == 1 then return 0 end end
		for _, k in ipairs(KEYS) do redis.call('set', k, ARGV[1], 'PX', ARGV[2]) end return #KEYS`
	acquireMany = `local all = {} for _, k in ipairs(KEYS) do table.insert(all, k) table.insert(all, ARGV[1]) end
		if redis.call('msetnx', unpack(all)) ~= 1 then if redis.call('getrange', KEYS[1], 0, #ARGV[1] - 1) ~= ARGV[1] then return false end end
		for _, k in ipairs(KEYS) do redis.call('pexpire', k, ARGV[2]) end return redis.status_reply('OK')`
	acquireOrExtend = `if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
		if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('pexpire', KEYS[1], ARGV[2]) return 2 end return redis.call('pttl', KEYS[1]) > 0 and 3`
	releaseAll = `local n = 0 for i, k in ipairs(KEYS) do if redis.call('get', k) == ARGV[1] then n = n + redis.call('del', k) end end return n`
	question   = `local v, n = redis.call('mget', KEYS[1])[1], redis.call('strlen', KEYS[1]) return {v, n, redis.call('ttl', KEYS[1]), true, false, 9}`
	deleteAny  = `return redis.call('del', KEYS[1])`
	extendAny  = `return redis.call('expire', KEYS[1], 20)`
)

const stranger = "ERR the script takes a lock whoever holds it"

// Each script, where the key is absent, is mine, and is another's: what it replies, and who holds
// the key afterwards. "+" is with a longer time to live.
var scriptCases = []struct{ name, script, absent, mine, other string }{
	{"compare and delete", compareAndDelete, "0 nil", "1 nil", "0 O"},
	{"delete or tell", deleteOrTell, "-1 nil", "1 nil", "0 O"},
	{"delete and publish", deleteAndPublish, "nil nil", "1 nil", "nil O"},
	{"extend", extendIfMine, "0 nil", "1 M+", "0 O"},
	{"add", addToWhatIsLeft, "0 nil", "1 M+", "0 O"},
	{"set again", setAgainIfMine, "nil nil", "OK M+", "nil O"},
	{"acquire all", acquireAll, "1 M+", "0 M", "0 O"},
	{"acquire many", acquireMany, "OK M+", "OK M+", "nil O"},
	{"acquire or extend", acquireOrExtend, "1 M+", "2 M+", "3 O"},
	{"release all", releaseAll, "0 nil", "1 nil", "0 O"},
	{"ask", question, "[nil 0 -2 1 nil 9] nil", "[M 1 10 1 nil 9] M", "[O 1 10 1 nil 9] O"},
	{"delete any", deleteAny, "0 nil", stranger, stranger},
	{"extend any", extendAny, "0 nil", stranger, stranger},
	{"set any", `return redis.call('SETEX', KEYS[1], 20, ARGV[1])`, "OK M+", stranger, "ERR the script"},
	{"no end", `return redis.call('SET', KEYS[1], ARGV[1], 'NX')`, "ERR a lock needs an end", "nil M", "nil O"},
	{"another token", `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], 'new', 'PX', 100) end`, "nil nil", "ERR the script gives", "nil O"},
	{"its own error", `return redis.error_reply('MINE it is')`, "MINE it is", "MINE it is", "MINE it is"},
	{"raises", `error('no')`, "ERR Error running script", "ERR Error running script", "ERR Error running script"},
	{"catches", `return redis.pcall('HGET', KEYS[1], 'a').err`, "ERR the script needs", "ERR the script needs", "ERR the script needs"},
	{"hash", `return redis.call('HINCRBY', KEYS[1], 'a', 1)`, "ERR Error running script", "ERR Error", "ERR Error"},
	{"sorted set", `return redis.call('ZADD', KEYS[1], 1, 'a')`, "ERR Error running script", "ERR Error", "ERR Error"},
	{"stranger", `return redis.call('GET', 'elsewhere')`, "ERR Error running script", "ERR Error", "ERR Error"},
}

// onScripts calls test with each script, state of its key, and what is wanted.
func onScripts(test func(name, script, state, want string)) {
	for _, one := range scriptCases {
		test(one.name, one.script, "", one.absent)
		test(one.name, one.script, "M", one.mine)
		test(one.name, one.script, "O", one.other)
	}
}

// evaluate returns what a script replies, and what it leaves of its key.
func evaluate(c *client, script string) string {
	got := c.do("EVAL", script, "1", "n", "M", "20000")
	if strings.HasPrefix(got, "ERR") || strings.HasPrefix(got, "MINE") {
		return got
	}
	got += " " + c.do("GET", "n")
	if ttl := c.do("TTL", "n"); len(ttl) == 2 && ttl >= "20" {
		got += "+"
	}
	return got
}

func TestScriptsDoWhatTheyDoInAWorldOfTheirKeys(t *testing.T) {
	onScripts(func(name, script, state, want string) {
		for server, where := range []string{"the server that granted it", "another server"} {
			inFleet(t, func(t *testing.T, f *fleet) {
				if state != "" {
					require.Equal(t, "OK", f.client(0).do("SET", "n", state, "NX", "PX", "10000"))
				}
				got := evaluate(f.client(server), script)
				assert.True(t, got == want || strings.HasPrefix(want, "ERR") && strings.HasPrefix(got, want),
					"%s, key %q, at %s: %s, not %s", name, state, where, got, want)
			})
		}
	})
}

func TestAScriptThatComparesNothingMeansTheLeaseOfItsConnection(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		c := f.client(0)
		require.Equal(t, "OK", c.do("SET", "n", "T", "NX", "PX", "10000"))
		assert.Equal(t, "1", c.do("EVAL", extendAny, "1", "n"))
		assert.Equal(t, "1", c.do("EVAL", deleteAny, "1", "n"))
	})
}

func TestSeveralKeysAreTakenTogetherOrNotAtAll(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		a, b := f.client(0), f.client(1)
		require.Equal(t, "2", a.do("EVAL", acquireAll, "2", "m", "n", "T", "10000"))
		require.Equal(t, "0", b.do("EVAL", acquireAll, "2", "n", "o", "U", "10000"))
		require.Equal(t, "nil", b.do("GET", "o"))
		require.Equal(t, "2", b.do("EVAL", releaseAll, "3", "m", "n", "o", "T"))
		require.Equal(t, "OK", b.do("EVAL", acquireMany, "2", "n", "o", "U", "10000"))
		require.Equal(t, "nil", a.do("EVAL", acquireMany, "2", "n", "o", "T", "10000"))
	})
}

func TestScriptsAreKnownByTheirDigestUntilTheyAreForgotten(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		a, b := f.client(0), f.client(1)
		digest := a.do("SCRIPT", "LOAD", compareAndDelete)
		require.Len(t, digest, 40)
		assert.Equal(t, "[1 0]", a.do("SCRIPT", "EXISTS", digest, "x"))
		assert.Equal(t, "0", a.do("EVALSHA", strings.ToUpper(digest), "1", "n", "T"))
		assert.Equal(t, "NOSCRIPT No matching script. Please use EVAL.", b.do("EVALSHA", digest, "1", "n", "T"))
		assert.Equal(t, "OK", a.do("SCRIPT", "FLUSH"))
		assert.Contains(t, a.do("EVALSHA", digest, "1", "n", "T"), "NOSCRIPT")
		assert.Equal(t, "0", a.do("EVAL", compareAndDelete, "1", "n", "T"))
		assert.Equal(t, "0", a.do("EVALSHA", digest, "1", "n", "T"))
		assert.Contains(t, a.do("SCRIPT", "KILL"), "ERR unknown subcommand")
		for i := range 600 {
			require.Len(t, a.do("SCRIPT", "LOAD", "return "+strings.Repeat(" ", i)), 40)
		}
	})
}

func TestAScriptHasItsKeysAndLittleElse(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		c := f.client(0)
		for script, want := range map[string]string{
			"return os":                "nil",
			"return io or debug or _G": "nil",
			"return print":             "nil",
			"return string.rep":        "nil",
			"return ('x').rep":         "nil",
			"return load or loadstring or dofile or require or getmetatable or setmetatable or collectgarbage or getfenv": "nil",
			"x = 1 return x":             "1",
			"string.sub = nil return x":  "ERR Error running script",
			"return string.sub('ab', 2)": "b",
			"while true do end":          "…it runs for too long for a lock",
			"while true do pcall(function() while true do end end) end": "…it runs for too long for a lock",
			"local function f() return 1 + f() end return f()":          "ERR Error running script",
			"local t = {} for i = 1, 1e9 do t[i] = i end":               "…it runs for too long for a lock",
			"local t = {} while true do t[#t + 1] = {} end":             "…it runs for too long for a lock",
			"local s = 'x' while true do s = s .. s end":                "ERR Error compiling script: it concatenates too much for a lock",
			"return unpack({}, 1, 1e8)":                                 "ERR Error running script",
			"local t = {} t[1] = t return t":                            "[[[[[[[[nil]]]]]]]]",
			"return KEYS[1] .. ':' .. ARGV[1]":                          "n:a",
			"return redis.call()":                                       "ERR Error running script",
			"return redis.call('GET')":                                  "ERR Error running script",
			"return redis.call('GET', {})":                              "ERR Error running script",
			"return redis.call('SET', KEYS[1], 'x', 'PX')":              "ERR Error running script",
			"return redis.call('SET', KEYS[1], 'x', 'PX', 'nan')":       "ERR Error running script",
			"return redis.call('MSET', KEYS[1])":                        "ERR Error running script",
			"return 3.99":                                               "3",
			"return {1, 'a', {2}, nil, 3}":                              "[1 a [2]]",
			"return redis.call('TIME')[1]":                              "946684…",
		} {
			got := c.do("EVAL", script, "1", "n", "a")
			if within, ok := strings.CutPrefix(want, "…"); ok {
				assert.Contains(t, got, within, script)
				continue
			}
			if begins, ok := strings.CutSuffix(want, "…"); ok || strings.HasPrefix(want, "ERR") {
				assert.True(t, strings.HasPrefix(got, begins), "%s: %s", script, got)
				continue
			}
			assert.Equal(t, want, got, script)
		}
		assert.Contains(t, c.do("EVAL", "return 1", "0"), "ERR a script has 1 to 64 keys")
		assert.Contains(t, c.do("EVAL", "return 1", "2", "n"), "ERR")
		assert.Contains(t, c.do("EVAL", "return 1", "x", "n"), "ERR")
		assert.Contains(t, c.do("EVAL", "return 1", "2", "n", "n"), "given twice")
		assert.Equal(t, "PONG", c.do("PING"))
	})
}

// Between the look and the release, the lease may end and another client get the lock: the script
// then runs again, in the world as it is.
func TestWhatAScriptWantsIsTiedToTheHolderThatItSaw(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		a, b := f.client(0), f.client(1)
		require.Equal(t, "OK", a.do("SET", "n", "same", "NX", "PX", "1000"))
		time.Sleep(3 * time.Second)
		require.Equal(t, "OK", b.do("SET", "n", "other", "NX", "PX", "10000"))
		// The server of a still remembers that it granted the name to this token.
		assert.Equal(t, "0", a.do("EVAL", compareAndDelete, "1", "n", "same"))
		assert.Equal(t, "0", a.do("EVAL", extendIfMine, "1", "n", "same", "20000"))
		assert.Equal(t, "2", b.do("EVAL", acquireOrExtend, "1", "n", "other", "20000"))
		assert.Equal(t, "other", a.do("GET", "n"))
	})
}
