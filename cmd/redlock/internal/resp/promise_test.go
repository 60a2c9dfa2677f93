package resp_test

import (
	"bufio"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/virtual"
)

// A client counts its TTL from the reply (S42), so a reply must not wait for the commands that the
// client has sent behind it.
func TestAReplyThatGrantsDoesNotWaitForTheCommandsBehindIt(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		c, other := f.client(0), f.client(1)
		f.Slow(20 * time.Millisecond)
		start := f.Clock.Now()
		go func() {
			_, err := io.WriteString(c.raw, "SET n T NX PX 1000\r\n"+strings.Repeat("GET m\r\n", 100))
			assert.NoError(t, err)
		}()
		replies := bufio.NewReader(c.raw)
		line, err := replies.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, "+OK\r\n", line)
		assert.Less(t, f.Clock.Now().Sub(start), 200*time.Millisecond)
		go io.Copy(io.Discard, replies) //nolint:errcheck // the rest is nobody's concern here
		assert.Equal(t, "nil", other.do("SET", "n", "U", "NX", "PX", "1000"))
	})
}

// What a client has read that it holds stays its own when its connection breaks.
func TestAGrantThatWasToldOutlivesItsConnection(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		c := f.client(0)
		go func() {
			_, _ = io.WriteString(c.raw, "SET n T NX PX 10000\r\n"+strings.Repeat("ECHO "+strings.Repeat("x", 900)+"\r\n", 9)) //nolint:errcheck // it hangs up
		}()
		line, err := bufio.NewReaderSize(c.raw, 16).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "+OK\r\n", line)
		require.NoError(t, c.raw.Close())
		time.Sleep(time.Second)
		assert.Equal(t, "T", f.client(1).do("GET", "n"))
	})
}

// What a script decides by a key that it leaves as it is, the masters are asked.
func TestAScriptDecidesByWhatTheMastersHave(t *testing.T) {
	inFleet(t, func(_ *testing.T, f *fleet) {
		f.play(`
			B SET gate O NX PX 10000 = OK
			A EVAL if_redis.call('EXISTS',KEYS[2])==0_then_return_redis.call('SET',KEYS[1],ARGV[1],'NX','PX',9000)_end_return_0 2 n gate T = 0
			A GET n = nil
			A SET n T NX PX 10000 = OK
			A EVAL if_type(redis.pcall('PTTL',KEYS[1]))=='table'_then_return_redis.call('DEL',KEYS[1])_end_return_0 1 n = 0
			B GET n = T`)
	})
}

// A script may compare today, and with other arguments not.
func TestAScriptThatComparesSometimesTakesNoStrangersLock(t *testing.T) {
	const sometimes = `if_ARGV[1]=='force'_or_redis.call('GET',KEYS[1])==ARGV[1]_then_return_redis.call('DEL',KEYS[1])_end_return_0`
	const older = `if_tonumber(redis.call('GET',KEYS[1]))<tonumber(ARGV[1])_then_return_redis.call('DEL',KEYS[1])_end_return_0`
	inFleet(t, func(_ *testing.T, f *fleet) {
		f.play(`
			B SET m T NX PX 10000 = OK
			B EVAL ` + sometimes + ` 1 m T = 1
			A SET n 1 NX PX 10000 = OK
			B EVAL ` + sometimes + ` 1 n force = ERR the script takes a lock…
			B EVAL ` + older + ` 1 n 2 = ERR the script takes a lock…
			A GET n = 1`)
	})
}

func TestAScriptTakesLittleMemory(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		assert.Equal(t, "1", f.client(0).do("EVAL", `local t = {} t[60000000] = 1 return t[60000000]`, "1", "n"))
		runtime.ReadMemStats(&after)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
	})
}

func TestARunOfAScriptLeavesNothingForTheNext(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		for _, script := range []string{
			`table.insert(redis, ARGV[1]) return #redis`, `redis[#redis + 1] = ARGV[1] return 1`, `string.secret = ARGV[1] return 1`, `redis.call = nil`,
		} {
			assert.Contains(t, f.client(0).do("EVAL", script, "1", "n", "T"), "ERR Error running script", script)
		}
		for range 2 {
			assert.Equal(t, "1", f.client(0).do("EVAL", `secret = (secret or 0) + 1 table.insert(KEYS, secret) return #KEYS - 1`, "1", "n"))
		}
	})
}

// A lock keeps its token, so nobody is told that it has another one now.
func TestSetDoesNotSayThatALockHasANewToken(t *testing.T) {
	inFleet(t, func(_ *testing.T, f *fleet) {
		f.play(`
			A SET n T NX PX 10000 = OK
			A SET n U XX PX 10000 = ERR…
			A SET n U PX 10000 = ERR…
			A SET n U IFEQ T PX 10000 = ERR…
			A GET n = T`)
	})
}

// A release that too few masters answered can be asked for again.
func TestADeleteWithoutAQuorumCanBeTriedAgain(t *testing.T) {
	inFleet(t, func(_ *testing.T, f *fleet) {
		f.play(`
			A SET n T NX PX 20000 = OK
			A SET m T NX PX 20000 = OK`)
		c := f.client(0)
		assert.Equal(f.T, "[T T]", c.do("MGET", "m", "n"))
		f.Each(virtual.Kill, 0, 1)
		virtual.Settle()
		for range 2 {
			assert.Contains(f.T, c.do("DEL", "n"), "NOQUORUM")
			assert.Contains(f.T, c.do("EVAL", deleteAny, "1", "m"), "NOQUORUM")
		}
	})
}

func TestAGrantWithinATransactionLastsFromItsLastReply(t *testing.T) {
	for gets, want := range map[int]string{40: "[OK OK nil", 60: "ERR redlock: lock lost"} { // of 20 ms each
		inFleet(t, func(t *testing.T, f *fleet) {
			c, other := f.client(0), f.client(1)
			f.Slow(20 * time.Millisecond)
			for _, command := range []string{"MULTI", "SET n T NX PX 1000", "SET o T NX PX 1000", strings.Repeat("GET m,", gets-1) + "GET m", "DEL o"} {
				for one := range strings.SplitSeq(command, ",") {
					words := strings.Fields(one)
					c.do(words[0], words[1:]...)
				}
			}
			got := c.do("EXEC")
			assert.True(t, strings.HasPrefix(got, want), got)
			if want[0] == '[' {
				assert.True(t, strings.HasSuffix(got, " 1]"), got)
				time.Sleep(950 * time.Millisecond)
				assert.Equal(t, "nil", other.do("SET", "n", "U", "NX", "PX", "1000"))
			}
			assert.Equal(t, "OK", other.do("SET", "o", "U", "NX", "PX", "1000"))
		})
	}
}

func TestLeasesThatAScriptExtendsLastFromItsReply(t *testing.T) {
	const extendAll = `for _, k in ipairs(KEYS) do if redis.call('get', k) == ARGV[1] then redis.call('pexpire', k, ARGV[2]) end end return 1`
	inFleet(t, func(t *testing.T, f *fleet) {
		a, b := f.client(0), f.client(1)
		with := func(script, ttl string) []string {
			args := []string{script, "60"}
			for i := range 60 {
				args = append(args, "n"+strconv.Itoa(i))
			}
			return append(args, "T", ttl)
		}
		require.Equal(t, "60", a.do("EVAL", with(acquireAll, "5000")...))
		f.Slow(20 * time.Millisecond)
		require.Equal(t, "1", b.do("EVAL", with(extendAll, "4500")...))
		time.Sleep(4400 * time.Millisecond)
		assert.Equal(t, "T", a.do("GET", "n0"))
	})
}

func TestATransactionIsNoLargerThanARequest(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		c, large := f.client(0), strings.Repeat("x", 60_000)
		require.Equal(t, "OK", c.do("MULTI"))
		for range 4 {
			require.Equal(t, "QUEUED", c.do("ECHO", large))
		}
		assert.Contains(t, c.do("ECHO", large), "ERR more than 64 commands in a transaction, or 262144 bytes")
		assert.Contains(t, c.do("EXEC"), "EXECABORT")
	})
}
