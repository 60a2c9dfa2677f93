package resp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/cmd/redlock/internal/lease"
	"github.com/redquorum/redquorum/cmd/redlock/internal/resp"
	"github.com/redquorum/redquorum/internal/proof/virtual"
)

// A and C are clients of one server, B and D of another one.
func TestCommandsDoWhatRedisDoesForALock(t *testing.T) {
	inFleet(t, func(_ *testing.T, f *fleet) {
		f.play(`
			A SET n T NX PX 10000 = OK
			A SET n T NX PX 10000 = nil
			B SET n U NX EX 10 = nil
			B SET n U NX GET EX 10 = T
			B GET n = T
			B EXISTS n m n = 2
			B TTL n = 10
			B TYPE n = string
			B TYPE m = none
			B TTL m = -2
			B PTTL m = -2
			B MGET n m = [T nil]

			# what is not mine stays
			D DEL n = 0
			D UNLINK n m = 0
			D EXPIRE n 5 = 0
			D DELEX n IFEQ U = 0
			D DELIFEQ n U = 0
			D SET n U XX PX 10000 = nil
			D SET n U PX 10000 = ERR SET without NX…
			D SET n U IFEQ U PX 10000 = nil
			A GET n = T

			# and what is mine is extended and released, from wherever I know the token
			A PEXPIRE n 20000 = 1
			A TTL n = 20
			A SET n T XX PX 30000 = OK
			D SET n T IFEQ T GET PX 40000 = T
			C TTL n = 40
			D DELEX n IFEQ T = 1
			D GET n = nil
			B SETEX n 10 U = ERR SET without NX…
			B SET n U NX PXAT 946684810000 = OK
			C DELIFEQ n U = 1
			B SET n U NX GET PX 10000 = nil
			C GET n = U
			C DEL n = 1
			B DEL n = 0
			B EXPIRE n 0 = 0`)
		f.LeavesNothing(time.Second)
	})
}

func TestALockWithoutAnEndIsRefusedOrGetsOne(t *testing.T) {
	lines := `
			A SETNX n T = %[1]s
			A SET m T NX = %[2]s
			A EVAL return_redis.call('SETNX',KEYS[1],ARGV[1]) 1 o T = %[1]s
			A EXPIRE n 5 = %[3]s
			A TTL n = %[4]s
			A DEL n m o = %[5]s
	`
	const refused = "ERR a lock needs an end…"
	inFleet(t, func(_ *testing.T, f *fleet) { f.play(fmt.Sprintf(lines, refused, refused, "0", "-2", "0")) })
	inFleet(t, func(_ *testing.T, f *fleet) { f.play(fmt.Sprintf(lines, "1", "OK", "1", "20", "3")) },
		func(c *resp.Config, _ *lease.Leases) { c.DefaultTTL = 20 * time.Second })
}

// A program that deletes what it does not hold any more deletes nothing of anybody else.
func TestAPlainDeleteMeansTheLeaseThatTheConnectionKnows(t *testing.T) {
	inFleet(t, func(_ *testing.T, f *fleet) {
		f.play(`
			A SET n 1 NX PX 1000 = OK
			sleep 3s
			B SET n 1 NX PX 10000 = OK
			A DEL n = 0
			A EXPIRE n 5 = 0
			C GET n = 1
			C DEL n = 1
			B DEL n = 0

			# nor is it told twice that it was there
			A SET n T NX PX 10000 = OK
			C DELIFEQ n T = 1
			A DEL n = 0`)
	})
}

func TestOnlyThoseWhoMayTakeLocksAway(t *testing.T) {
	virtual.InBubble(t, 3, func(t *testing.T, c *virtual.Cluster) {
		locker := c.Locker()
		f := &fleet{Cluster: c, servers: []*resp.Server{
			resp.New(resp.Config{Leases: lease.New(locker), Clock: c.Clock, Force: admin.Of(locker)}), resp.New(resp.Config{Leases: lease.New(c.Locker()), Clock: c.Clock}),
		}}
		f.play(`
			B SET n T NX PX 10000 = OK
			A CLIENT SETNAME cron = OK
			A DEL n = 1
			A DEL n = 0
			B DEL n = 0`)
		log, err := admin.Of(locker).Log(t.Context())
		require.NoError(t, err)
		require.Len(t, log, 1)
		assert.Equal(t, "DEL by pipe (cron)", log[0].Why)
	})
}

func TestATransactionAroundAKeyDoesNothingIfItChanged(t *testing.T) {
	inFleet(t, func(_ *testing.T, f *fleet) {
		f.play(`
			A SET n T NX PX 10000 = OK
			B WATCH n = OK
			B GET n = T
			B MULTI = OK
			B DEL n = QUEUED
			B EXEC = [1]
			B GET n = nil

			B SET n U NX PX 1000 = OK
			B WATCH n = OK
			B GET n = U
			sleep 3s
			A SET n T NX PX 10000 = OK
			B MULTI = OK
			B DEL n = QUEUED
			B EXEC = nil
			A GET n = T

			# also one that is free now, or was free
			B WATCH n = OK
			A DEL n = 1
			B MULTI = OK
			B SET n U NX PX 1000 = QUEUED
			B EXEC = nil
			B WATCH n = OK
			B MULTI = OK
			B SET n U NX PX 1000 = QUEUED
			B EXPIRE n 10 = QUEUED
			B EXEC = [OK 1]
			B UNWATCH = OK

			A EXEC = ERR EXEC without MULTI
			A DISCARD = ERR DISCARD without MULTI
			A MULTI = OK
			A MULTI = ERR MULTI calls can not be nested
			A WATCH n = ERR WATCH inside MULTI is not allowed
			A GET = ERR wrong number of arguments for 'get' command
			A EXEC = EXECABORT Transaction discarded because of previous errors.
			A MULTI = OK
			A DISCARD = OK
			A PING = PONG`)
	})
}

// A lock of a program in Go is seen by its value, and only its program can do anything to it.
func TestTheLockOfAnotherProgramIsLeftAlone(t *testing.T) {
	virtual.InBubble(t, 3, func(t *testing.T, c *virtual.Cluster) {
		locker := c.Locker()
		f := &fleet{Cluster: c}
		for range 2 {
			f.servers = append(f.servers, resp.New(resp.Config{Leases: lease.New(c.Locker()), Clock: c.Clock}))
		}
		lock, err := locker.TryLock(t.Context(), "n")
		require.NoError(t, err)
		value := lock.Value()
		f.play(`
			A SET n T NX PX 10000 = nil
			A GET n = ` + value[:20] + `…
			A DEL n = 0
			A EXPIRE n 50 = 0
			A EVAL return_redis.call('DEL',KEYS[1]) 1 n = ERR the script takes a lock…
			A WATCH n = OK`)
		require.NoError(t, lock.Verify(t.Context()))
		watching := f.client(0)
		require.Equal(t, "OK", watching.do("WATCH", "n"))
		c.Unlock(lock)
		require.Equal(t, "OK", watching.do("MULTI"))
		require.Equal(t, "QUEUED", watching.do("SET", "n", "T", "NX", "PX", "10000"))
		require.Equal(t, "nil", watching.do("EXEC"), "it changed")
	})
}

func TestWhatClientsSayAtAConnectIsAnswered(t *testing.T) {
	inFleet(t, func(_ *testing.T, f *fleet) {
		f.play(`
			A HELLO 2 = [server redis version 7.2.0 mode standalone role master proto 2 id 1 modules []]
			A HELLO 4 = NOPROTO unsupported protocol version
			A CLIENT SETINFO LIB-NAME x = OK
			A CLIENT SETNAME me = OK
			A CLIENT GETNAME = me
			A CLIENT ID = 1
			A CLIENT KILL x = ERR unknown subcommand "KILL" of CLIENT: this is redlock serve…
			A SELECT 0 = OK
			A SELECT 1 = ERR DB index is out of range…
			A PING = PONG
			A PING hi = hi
			A ECHO hi = hi
			A INFO = # Server…
			A COMMAND = []
			A COMMAND DOCS = []
			A ROLE = [master 0 []]
			A READONLY = OK
			A TIME = [946684800…
			A AUTH x = ERR AUTH called, but no password is needed here…
			A LPUSH l 1 = ERR unknown command "LPUSH": this is redlock serve…
			A ZADD redis:z 1 = ERR unknown command "ZADD": this is redlock serve…
			A SET = ERR wrong number of arguments for 'set' command
			A SET n T NX PX = ERR syntax error
			A SET n T NX PX x = ERR value is not an integer or out of range
			A SET n T NX PX 0 = ERR invalid expire time in 'set' command
			A SET n T NX XX PX 1 = ERR syntax error
			A SET n T NX EX 9999999999999 = ERR invalid expire time in 'set' command
			A SET n T NX EX 100 = ERR redlock: invalid argument: TTL…
			A SET redquorum:n T NX EX 10 = ERR redlock: invalid argument: name…
			A EXPIRE n 5 NX = ERR a lock is only extended…
			A RESET = RESET
			A QUIT = OK`)
	})
}

func TestResp3IsSpokenToThoseWhoAskForIt(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		c := f.client(0)
		go func() {
			_, err := io.WriteString(c.raw, "HELLO 3\r\nGET n\r\nWATCH n\r\nQUIT\r\n")
			assert.NoError(t, err)
		}()
		all, err := io.ReadAll(c.raw)
		require.NoError(t, err)
		assert.Equal(t, "%7 $6 server $5 redis $7 version $5 7.2.0 $4 mode $10 standalone $4 role $6 master $5 proto :3 $2 id :1 $7 modules *0 _ +OK +OK ",
			strings.ReplaceAll(string(all), "\r\n", " "))
	})
}

func TestAClientLogsInFirst(t *testing.T) {
	login := func(c *resp.Config, _ *lease.Leases) {
		c.Login = func(_ context.Context, user, password string) bool { return user == "default" && password == "secret" }
	}
	inFleet(t, func(_ *testing.T, f *fleet) {
		f.play(`
			A GET n = NOAUTH Authentication required.
			A MULTI = NOAUTH Authentication required.
			A HELLO 3 = NOAUTH HELLO must be…
			A AUTH wrong = WRONGPASS invalid username-password pair or user is disabled.
			A GET n = NOAUTH Authentication required.
			A AUTH me secret = WRONGPASS invalid username-password pair or user is disabled.
			A AUTH secret = OK
			A GET n = nil
			A RESET = RESET
			A GET n = NOAUTH Authentication required.
			B HELLO 2 AUTH default secret SETNAME x = [server…
			B CLIENT GETNAME = x
			B AUTH default wrong = WRONGPASS…
			B GET n = NOAUTH Authentication required.`)
	}, login)
}

func TestBadInputIsAnErrorAndTheConnectionStaysInStep(t *testing.T) {
	big := strings.Repeat("x", 70_000)
	for _, in := range []struct{ sent, want string }{
		{"\r\n\r\nPING\r\n", "+PONG "},
		{"*0\r\nPING\r\n", "+PONG "},
		{"*-1\r\nPING\r\n", "+PONG "},
		{"*2\r\n$4\r\nECHO\r\n$0\r\n\r\nPING\r\n", "$0  +PONG "},
		{"*2\r\n$3\r\nGET\r\n$70000\r\n" + big + "\r\nPING\r\n", "-ERR a request has at most"},
		{"*1100\r\n" + strings.Repeat("$1\r\nx\r\n", 1100) + "PING\r\n", "-ERR a request has at most"},
		{"*9\r\n" + strings.Repeat("$60000\r\n"+big[:60_000]+"\r\n", 9) + "PING\r\n", "-ERR a request has at most"},
		{"EVAL \x00 1 n\r\nPING\r\n", "-ERR Error compiling script"},
	} {
		inFleet(t, func(t *testing.T, f *fleet) {
			got := f.exchange(in.sent + "QUIT\r\n")
			assert.True(t, strings.HasPrefix(got, in.want), "%.40q: %.200q", in.sent, got)
			assert.True(t, strings.HasSuffix(got, "+PONG +OK "), "%.40q: %.200q", in.sent, got)
		})
	}
	for _, sent := range []string{
		"*1\r\nPING\r\n", "*x\r\n", "*1\r\n$-1\r\n", "*1\r\n$x\r\n", "*1\r\n$999999999\r\n", "*1\r\n$4\r\nPINGxx\r\n", "*9999999\r\n",
		strings.Repeat("x", 5000) + "\r\n", "*1\r\n$67000000\r\n" + big + "\r\n",
	} {
		inFleet(t, func(t *testing.T, f *fleet) {
			got := f.exchange(sent)
			assert.True(t, got == "" || strings.HasPrefix(got, "-ERR Protocol error: "), "%.40q: %.200q", sent, got)
		})
	}
}

// exchange sends bytes, and returns all that comes back until the connection ends.
func (f *fleet) exchange(sent string) string {
	c := f.client(0)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.WriteString(c.raw, sent) //nolint:errcheck // the server may close first
		time.Sleep(time.Second)
		_ = c.raw.Close()
	}()
	all, _ := io.ReadAll(bufio.NewReader(c.raw)) //nolint:errcheck // what came is what counts
	<-over
	return strings.ReplaceAll(string(all), "\r\n", " ")
}

// A page in a browser on this machine can send a form to the door, and commands in it.
func TestABrowserIsNotServed(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		assert.Empty(t, f.exchange("POST / HTTP/1.1\r\nHost: 127.0.0.1:6390\r\n\r\nSET n T NX PX 10000\r\n"))
		assert.NotContains(t, f.exchange("GET / HTTP/1.1\r\nHost: 127.0.0.1:6390\r\n\r\nSET n T NX PX 10000\r\n"), "OK")
		f.LeavesNothing(time.Second)
	})
}

func TestPipelinedCommandsAreAnsweredInOrder(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		assert.Equal(t, "+OK $-1 $1 T :1 $-1 +OK ",
			f.exchange("SET n T NX PX 10000\r\nSET n U NX PX 10000\r\nGET n\r\nDEL n\r\nGET n\r\nQUIT\r\n"))
	})
}

func TestAGrantWhoseReplyCannotBeSentIsGivenBack(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.Slow(20 * time.Millisecond)
		c := f.client(0)
		_, err := io.WriteString(c.raw, "SET n T NX PX 10000\r\n")
		require.NoError(t, err)
		require.NoError(t, c.raw.Close())
		time.Sleep(time.Second)
		f.LeavesNothing(time.Second)
	})
}

func TestWithoutAQuorumTheErrorSaysSo(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.play(`A SET n T NX PX 10000 = OK`)
		f.Each(virtual.Kill, 0, 1)
		virtual.Settle()
		f.play(`
			A SET n T NX PX 10000 = NOQUORUM…
			A GET n = NOQUORUM…
			A EXISTS n = NOQUORUM…
			A TTL n = NOQUORUM…
			A TYPE n = NOQUORUM…
			A WATCH n = NOQUORUM…
			A SET n T XX PX 10 = NOQUORUM…
			A DELIFEQ n T = NOQUORUM…
			A EVAL return_redis.call('GET',KEYS[1]) 1 n = NOQUORUM…`)
	})
}
