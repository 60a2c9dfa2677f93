package fakenode

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
)

// sameAsRedis has conversations, a command a line. A word in '...' may have spaces. Each starts with no keys.
var sameAsRedis = map[string]string{
	"strings": `
		SET k v
		SET k w NX
		SET k w XX
		GET k
		SET k x GET
		SET k y NX GET
		SET fresh y NX GET
		SET none y XX GET
		SET none y XX
		SET k v px 100000
		TTL k
		SET k w KEEPTTL
		TTL k
		SET k w
		TTL k
		SET k v NX XX
		SET k v PX
		SET k v PX 0
		SET k v PX -5
		SET k v PX abc
		SET k v PX 9223372036854775807
		SET k v EX 9223372036854775
		SET k v EX 1 PX 1
		SET k v PX 0 WHAT
		SET k v EX 1 KEEPTTL
		SET k v EXAT 1
		GET k
		set k 'a b' ex 100
		get k
		ttl k
		GET
		GET a b
		EXISTS k k none
		DEL k k none
		TYPE k`,
	"incr": `
		INCR n
		INCR n
		SET n 9223372036854775807
		INCR n
		SET n 01
		INCR n
		SET n ' 1'
		INCR n
		SET n -7 EX 100
		INCR n
		TTL n`,
	"expiry": `
		PEXPIRE none 1000
		SET k v
		PEXPIRE k 100000 XX
		PEXPIRE k 100000 NX
		TTL k
		PEXPIRE k 200000 NX
		PEXPIRE k 50000 GT
		PEXPIRE k 200000 GT
		TTL k
		PEXPIRE k 300000 LT
		EXPIRE k 100 LT
		TTL k
		EXPIRE k 100 NX XX
		EXPIRE k 100 GT LT
		PEXPIRE k 100 FOO
		PEXPIRE k x
		PEXPIRE k 9223372036854775807
		EXPIRE k 9223372036854775807
		EXPIRE k -9223372036854775807
		PTTL none
		PEXPIRE k 0
		EXISTS k
		SET k v
		PTTL k
		EXPIRE k -1
		GET k`,
	"sorted sets": `
		ZADD z 1 a 2 b
		ZADD z NX 5 a 0 c
		ZADD z XX CH 3 a 9 d
		ZADD z GT 1 a
		ZADD z GT CH 7 a
		ZADD z LT CH 4 a
		ZADD z 4 'a a' 4 aa
		ZRANGE z 0 -1 WITHSCORES
		ZRANGE z -2 -1
		ZRANGE z 1 0
		ZRANGE z 0 1 REV
		ZRANGE z -2 -1 REV WITHSCORES
		ZRANGE z 5 100
		ZRANGE z -100 0
		ZRANGE z 0 1 FOO
		ZRANGE z a b
		ZRANGE none 0 -1
		ZRANGEBYSCORE z -inf +inf
		ZRANGEBYSCORE z (0 (4
		ZRANGEBYSCORE z 4 4 WITHSCORES
		ZRANGEBYSCORE z (4 4
		ZRANGEBYSCORE z 5 1
		ZRANGEBYSCORE z -inf inf LIMIT 1 2
		ZRANGEBYSCORE z -inf inf LIMIT 1 -1 WITHSCORES
		ZRANGEBYSCORE z -inf inf LIMIT 10 1
		ZRANGEBYSCORE z -inf inf LIMIT -1 1
		ZRANGEBYSCORE z -inf inf LIMIT 1
		ZRANGEBYSCORE z -inf inf LIMIT 1 x
		ZRANGEBYSCORE z x inf
		ZRANGEBYSCORE z 1 nan
		ZCARD z
		ZCARD none
		ZSCORE z a
		ZSCORE z none
		ZSCORE none a
		ZADD z 0.1 tenth 1e300 big -inf low 1753000000.123456 now
		ZRANGE z 0 -1 WITHSCORES
		ZREM z a none big
		ZREM none a
		ZPOPMIN z
		ZPOPMIN z 2
		ZPOPMIN z 0
		ZPOPMIN z 100
		EXISTS z
		ZPOPMIN none
		ZPOPMIN z -1
		ZPOPMIN z x
		ZPOPMIN z 1 2
		ZADD z NX XX 1 a
		ZADD z NX GT 1 a
		ZADD z GT LT 1 a
		ZADD z nan a
		ZADD z x a
		ZADD z 1 a 2
		ZADD z NX 1
		ZADD none XX 1 a
		EXISTS none`,
	"wrong type": `
		SET s v
		ZADD z 1 a
		GET z
		INCR z
		SET z v GET
		SET z v NX GET
		ZADD s 1 a
		ZREM s a
		ZCARD s
		ZSCORE s a
		ZRANGE s 0 -1
		ZRANGEBYSCORE s 0 1
		ZPOPMIN s
		TYPE z
		TYPE s
		SET z v
		GET z`,
	"server": `
		PING
		PING hello
		PING a b
		ECHO 'a b'
		ECHO
		NOPE
		nope a 'b c'
		KEYS *
		SET a/b 1
		SET b 1
		KEYS a*
		KEYS b
		DBSIZE
		SELECT 1
		DBSIZE
		SET other 1
		SELECT 0
		SELECT 16
		SELECT -1
		SELECT x
		CLIENT GETNAME
		CLIENT SETNAME me
		CLIENT GETNAME
		CLIENT SETNAME 'a b'
		CLIENT FOO
		CLIENT
		CLIENT ID x
		CLIENT KILL
		CLIENT KILL ID
		CLIENT KILL ID 0
		CLIENT KILL ID 999999
		CONFIG GET appendonly
		CONFIG GET APPENDFSYNC
		CONFIG GET none
		CONFIG GET no-append*
		CONFIG GET maxmemory-pol*
		CONFIG GET
		CONFIG FOO
		AUTH x
		AUTH default x
		AUTH other x
		AUTH a b c
		FLUSHALL SYNC
		FLUSHALL FOO
		DBSIZE
		INFO nope`,
	"publish": `
		PUBLISH nobody hello
		PUBSUB NUMSUB
		PUBSUB NUMSUB nobody somebody
		PUBSUB
		UNSUBSCRIBE
		SUBSCRIBE`,
	"scripts": `
		SCRIPT LOAD 'return 1'
		EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
		EVALSHA E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0
		SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db ffff
		SCRIPT FLUSH FOO
		SCRIPT FLUSH
		SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db
		EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
		EVAL 'return 1' 0
		EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
		EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db x
		EVAL 'return 1' x
		EVAL 'return 1' -1
		EVAL 'return 1' 2 a
		EVAL 'return 1'
		SCRIPT
		SCRIPT FOO
		SCRIPT LOAD
		SCRIPT EXISTS
		EVAL 'return {KEYS[1],KEYS[2],ARGV[1],ARGV[2],#KEYS,#ARGV}' 2 a b c d
		EVAL 'return {KEYS[1],ARGV[1]}' 0
		EVAL 'redis.call("select","2") redis.call("set","k","v") return 1' 0
		EXISTS k`,
	"conversions": `
		EVAL 'return' 0
		EVAL 'return nil' 0
		EVAL 'return true' 0
		EVAL 'return false' 0
		EVAL 'return 3.99' 0
		EVAL 'return -3.99' 0
		EVAL 'return 1800000000000001' 0
		EVAL 'return "text"' 0
		EVAL 'return {1,"a",false,true,{1.9,{}},nil,4}' 0
		EVAL 'return {ok="fine"}' 0
		EVAL 'return {err="MY fault"}' 0
		EVAL 'return {double=1.5}' 0
		EVAL 'return {a=1}' 0
		EVAL 'return redis.status_reply("a b")' 0
		EVAL 'return redis.status_reply(1)' 0
		EVAL 'return redis.error_reply("MY fault")' 0
		EVAL 'return redis.error_reply("fault")' 0
		EVAL 'return redis.error_reply("-MY fault")' 0
		EVAL 'return redis.error_reply(1)' 0
		EVAL 'return redis.call("get","none")' 0
		EVAL 'return redis.call("get","none") == false' 0
		EVAL 'return type(redis.call("set","k","v")) .. redis.call("set","k","v").ok' 0
		EVAL 'return type(redis.call("set","k","w","nx"))' 0
		EVAL 'return type(redis.call("incr","n"))' 0
		EVAL 'redis.call("zadd","z",1.5,"a",2,"b") return redis.call("zrange","z",0,-1,"withscores")' 0
		EVAL 'return redis.call("zpopmin","none")' 0
		EVAL 'return redis.call("zpopmin","none")[1] == nil' 0
		EVAL 'return redis.call("zscore","z","none")' 0
		EVAL 'redis.call("set","k","v","px",100000) return redis.call("pttl","k") > 99000' 0
		EVAL 'return #redis.call("time")' 0
		EVAL 'local t = redis.call("time") return t[1] * 1000000 + t[2] > 1800000000000' 0
		EVAL 'return redis.sha1hex("")' 0
		EVAL 'return redis.call("ping")' 0
		EVAL 'return redis.call("echo", 12)' 0`,
	"numbers": `
		EVAL 'return string.format("%.0f", 1800000000000001)' 0
		EVAL 'return string.format("%.0f", 9007199254740993)' 0
		EVAL 'return string.format("%.0f", "1753000000123456" + 1)' 0
		EVAL 'return tostring(1800000000000001)' 0
		EVAL 'return 1800000000000001 .. ""' 0
		EVAL 'local a = 1e15 return "x" .. a .. "y" .. 12 .. 0.5' 0
		EVAL 'return {tostring(99999999999999), tostring(123456789012345), tostring(0.1), tostring(1/3), tostring(1e100), tostring(-5)}' 0
		EVAL 'return redis.call("echo", 1800000000000001)' 0
		EVAL 'return redis.call("echo", 0.1)' 0
		EVAL 'return redis.call("echo", 1e300)' 0
		EVAL 'return {tostring(tonumber("1e3")), tonumber(" 12 "), tonumber("0x1F"), tonumber("zz", 36), tonumber("11", 2), tonumber(10, 2)}' 0
		EVAL 'return {tonumber("1753000000123456"), tonumber("-4")}' 0
		EVAL 'return {tostring(tonumber("")), tostring(tonumber("x1")), tostring(tonumber("1 2")), tostring(tonumber("1_0")), tostring(tonumber(nil))}' 0
		EVAL 'return tonumber("18000000000000001") == 18000000000000000' 0
		EVAL 'return {tostring(math.huge), tostring(-math.huge), tostring(tonumber("inf"))}' 0
		EVAL 'return {string.rep("ab", 3), string.sub("hello", 2, -2), #"abc", ("x"):upper(), string.find("a|b", "|", 1, true)}' 0
		EVAL 'return {string.match("value|owner", "^([^|]*)"), select("#", 1, 2), unpack({1, 2, 3})}' 0
		EVAL 'local t = {} table.insert(t, 3) table.insert(t, 1) table.sort(t) return t' 0
		EVAL 'return {5 % -3, -5 % 3, 7 / 2, 2 ^ 10, math.floor(-1.5), math.max(1, 3, 2)}' 0
		EVAL 'return string.format("%d %5d|%-5d|%05d %i %u %x %X %o %c", 3.9, 42, 42, 42, -3, 7, 255, 255, 8, 65)' 0
		EVAL 'return string.format("%5.2f %e %g %g %g %g %G %s %s %%", 1.005, 12345.678, 1e20, 0.1, 100000, 1e6, 1e-10, 1e15, "x")' 0
		EVAL 'return string.format("%q %10s|%-10s|%.2s", "a\"b\\\n", "x", "y", "xyz")' 0
		EVAL 'return string.format("%5.1f|%f", math.huge, -math.huge)' 0
		EVAL 'return table.concat({1e15, 2, "x"}, ",") .. table.concat({}) .. table.concat({1,2,3}, "-", 2, 3)' 0
		EVAL 'return {"10" + 1, "3" * "4", 10 == "10"}' 0
		EVAL 'local n = 0 for i = 1, 10 do n = n + i end return n' 0
		SET ttl 30000
		EVAL 'return math.max(redis.call("get","ttl") + 1, ARGV[1])' 0 5
		EVAL 'return math.max(tonumber(redis.call("get","ttl")), tonumber(ARGV[1]))' 0 50000`,
	"scripts that keep a text": `
		EVAL 'local now = redis.call("TIME") return {type(now), #now, type(now[1]), type(now[1] * 1000 + now[2] / 1000), #string.format("%.0f", now[1] * 1000)}' 0
		EVAL 'local text = redis.pcall("GET", KEYS[1]) return type(text)' 1 k
		EVAL 'local text = redis.pcall("GET", KEYS[1]) if text == false then return "" end return text' 1 k
		EVAL 'return string.format("%s until %.0f %s %s", "new", 1753000000123 + ARGV[1], ARGV[2], KEYS[1])' 1 k 2000 abc
		EVAL 'local text = string.format("%s until %.0f %s", "new", 1753000000123, ARGV[1]) redis.call("SET", KEYS[1], text) return {text, "set"}' 1 k abc
		GET k
		TTL k
		EVAL 'local text = redis.pcall("GET", KEYS[1]) if text ~= ARGV[1] then return {text, "other"} end redis.call("SET", KEYS[1], ARGV[2]) return {ARGV[2], "set"}' 1 k 'new until 1753000000123 abc' active
		EVAL 'local text = redis.pcall("GET", KEYS[1]) if text ~= ARGV[1] then return {text, "other"} end redis.call("SET", KEYS[1], ARGV[2]) return {ARGV[2], "set"}' 1 k 'new until 1753000000123 abc' active
		EVAL 'local state, at = string.match("lost until 1753000000123 abc", "^(%a+) until (%d+) ") return {state, at, tonumber(at) < 1753000000124}' 0
		EVAL 'local words = {} for word in string.gmatch("active abc def 1 2000 -", "%S+") do words[#words + 1] = word end return words' 0
		ZADD z 1 a
		EVAL 'local text = redis.pcall("GET", KEYS[1]) return {type(text), text.err}' 1 z
		EVAL 'local text = redis.pcall("GET", KEYS[1]) if type(text) == "table" then return "?" end return text' 1 z
		EVAL 'return redis.pcall("GET", KEYS[1])' 1 z
		EVAL 'redis.call("SET", KEYS[1], "text") return {redis.call("GET", KEYS[1]), redis.call("TYPE", KEYS[1]).ok}' 1 z
		EVAL 'redis.call("SET", KEYS[1], 1753000000123) return redis.call("GET", KEYS[1])' 1 n
		EVAL 'return {tostring(1753000000123), 1753000000123 .. "", math.floor(1753000000123.7)}' 0`,
	"script errors": `
		SET s v
		EVAL 'return redis.call("zcard","s")' 0
		EVAL 'return redis.pcall("zcard","s")' 0
		EVAL 'return redis.pcall("zcard","s").err' 0
		EVAL 'local ok, e = pcall(redis.call, "zcard", "s") return {tostring(ok), e}' 0
		EVAL 'local ok, e = pcall(function(a, b) return a + b end, 1, 2) return {tostring(ok), e}' 0
		EVAL 'redis.call("nope")' 0
		EVAL 'redis.call("get")' 0
		EVAL 'redis.call()' 0
		EVAL 'redis.call("get", {})' 0
		EVAL 'redis.call("get", true)' 0
		EVAL 'redis.call("subscribe", "c")' 0
		EVAL 'redis.call("eval", "return 1", 0)' 0
		EVAL 'redis.call("client", "id")' 0
		EVAL 'redis.call("set", "k", "v", "PX", "0")' 0
		EVAL 'error("x")' 0
		EVAL 'error({err="MY fault"})' 0
		EVAL 'error(redis.error_reply("MY fault"))' 0
		EVAL 'x = 1' 0
		EVAL 'return x' 0
		EVAL 'return print' 0
		EVAL 'return redis.nope' 0
		EVAL 'redis = 1' 0
		EVAL 'redis.call = 1' 0
		EVAL 'string.format = 1' 0
		EVAL 'KEYS = 1' 0
		EVAL 'KEYS[1] = "q" return KEYS[1]' 0
		EVAL 'assert(false, "no")' 0
		EVAL 'redis.log(redis.LOG_NOTICE, "hello") return redis.replicate_commands()' 0`,
}

func TestFakeAnswersAsRedisDoes(t *testing.T) {
	real := startRedis(t)
	fake, err := newSystemNode(t).Dial(context.Background())
	require.NoError(t, err)
	imitation := redis.NewConn(fake, 0, 0)
	defer imitation.Close()

	for name, conversation := range sameAsRedis {
		t.Run(name, func(t *testing.T) {
			for _, c := range []redis.Conn{real, imitation} {
				require.Equal(t, "+OK", do(c, "SELECT", "0"))
				require.Equal(t, "+OK", do(c, "FLUSHALL"))
			}
			for line := range strings.Lines(conversation) {
				words := split(strings.TrimSpace(line))
				if len(words) > 0 {
					assert.Equal(t, do(real, words...), do(imitation, words...), "redis-server (expected) and the fake on %q", words)
				}
			}
		})
	}
}

// Where a script fails on a later line, the error names it.
func TestFakeNamesTheLineOfAnErrorAsRedisDoes(t *testing.T) {
	real := startRedis(t)
	conn, err := newSystemNode(t).Dial(context.Background())
	require.NoError(t, err)
	fake := redis.NewConn(conn, 0, 0)
	defer fake.Close()
	for _, script := range []string{
		"local a = 1\nlocal b = 2\nreturn redis.call('nope')",
		"local a = 1\nredis.call('nope')\nreturn 1",
		"local a = 1\n\nerror('x')",
		"local a = 1\n\nerror({err='MY x'})",
		"local function f()\nredis.call('nope')\nend\n\nf()",
		"-- a\nx = 1",
	} {
		assert.Equal(t, do(real, "EVAL", script, "0"), do(fake, "EVAL", script, "0"), script)
	}
}

// split parts a line into words; '...' is one word.
func split(line string) []string {
	var words []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

func newSystemNode(t *testing.T) *Node {
	t.Helper()
	n := New(clock.System())
	t.Cleanup(n.Close)
	return n
}

// startRedis starts a redis-server of its own and returns a connection to it. The server ends with the test.
func startRedis(t *testing.T) redis.Conn {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		skipOutsideCI(t, "no redis-server in PATH")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, listener.Close())

	server := exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", t.TempDir())
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		require.NoError(t, server.Process.Kill())
		require.Error(t, server.Wait(), "killed")
	})
	for range 500 { // 5 s, for a busy machine
		if c, err := redis.Dial("tcp", "127.0.0.1:"+port); err == nil {
			t.Cleanup(func() { c.Close() })
			info, err := redis.String(c.Do("INFO", "server"))
			require.NoError(t, err)
			if !strings.Contains(info, "redis_version:7.0.") {
				skipOutsideCI(t, "redis-server is not 7.0, which the fake imitates")
			}
			return c
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("redis-server did not answer within 5 s")
	return nil
}

func skipOutsideCI(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("CI must compare the fake with Redis: " + why)
	}
	t.Skip("the fake is not compared with Redis: " + why)
}
