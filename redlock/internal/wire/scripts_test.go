package wire

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/internal/proof/search/fence"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// pair is a server that runs the scripts and a node of the model in which violations are searched
// for. Both get the same commands, and must answer the same and keep the same.
type pair struct {
	t     *rapid.T
	conn  redis.Conn
	model *fence.Node
}

const (
	pairTTL   = 60_000
	pairGrace = 60_000
	pairLife  = 600_000
)

// Every second value belongs to a process that listens, the others to one that does not. They have
// our form: the scripts treat other values differently (others.lua).
var pairValues = []string{pairForm + "a", pairForm + "b", pairForm + "c", pairForm + "d", pairForm + "e", pairForm + "f"}

const pairForm = "ABCDEFGHIJKLMNOPQRSTUVWXYZ|"

func pairAlive(value string) bool { return slices.Index(pairValues, value)%2 == 0 }

func pairProcess(value string) string {
	if pairAlive(value) {
		return "alive"
	}
	return "dead"
}

// listen subscribes as the process "alive".
func listen(t testing.TB, server *redistest.Server) {
	t.Helper()
	listenOn(t, func() (redis.Conn, error) { return redis.Dial("tcp", server.Addr()) })
}

func listenOn(t testing.TB, dial func() (redis.Conn, error)) {
	t.Helper()
	conn, err := dial()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, conn.Close()) })
	require.NoError(t, redis.PubSubConn{Conn: conn}.Subscribe(WakeChannel+"alive"))
	_, err = conn.Receive()
	require.NoError(t, err)
}

var pairNames = []string{"x", "y"}

func TestScriptsDoWhatTheModelDoes(t *testing.T) {
	server := redistest.Start(t, 1)[0]
	conn, err := redis.Dial("tcp", server.Addr())
	require.NoError(t, err)
	defer conn.Close()
	listen(t, server)
	rapid.Check(t, func(t *rapid.T) {
		w := &pair{t: t, conn: conn, model: fence.NewNode()}
		w.do("FLUSHALL")
		t.Repeat(map[string]func(*rapid.T){
			"":        w.compare,
			"acquire": w.acquire,
			"wait":    w.wait,
			"release": w.release,
			"raise":   w.raise,
			"mend":    w.mend,
			"spoil":   w.spoil,
			"adopt":   w.adopt,
			"expire":  w.expire,
		})
	})
}

func (w *pair) do(command string, args ...any) any {
	reply, err := w.conn.Do(command, args...)
	if err != nil {
		w.t.Fatalf("%s %q: %v", command, args, err)
	}
	return reply
}

// run runs a script, and moves the model's clock to the server's.
func (w *pair) run(names []string, args []any, sources ...string) any {
	now, err := redis.Ints(w.conn.Do("TIME"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.model.Now = int64(now[0])*1_000_000 + int64(now[1])
	all := []any{bare(sources), len(names)}
	for _, name := range names {
		all = append(all, name)
	}
	return w.do("EVAL", append(all, args...)...)
}

func (w *pair) value() string { return rapid.SampledFrom(pairValues).Draw(w.t, "value") }
func (w *pair) name() string  { return rapid.SampledFrom(pairNames).Draw(w.t, "name") }

func (w *pair) names() []string {
	return rapid.SampledFrom([][]string{{"x"}, {"y"}, {"x", "y"}, {"y", "x"}}).Draw(w.t, "names")
}

// timestamp is near the server's clock, so that it is not clamped, and often the same. Counters are
// often ahead of it, in the future of model and server.
func (w *pair) timestamp() int64 {
	return (time.Now().UnixMicro()/5_000_000)*5_000_000 + rapid.Int64Range(-2, 2).Draw(w.t, "timestamp")
}

// same compares what a script and the model granted.
func (w *pair) same(what string, names []string, reply any, number int64, granted bool) {
	got := int64(0)
	if text, ok := reply.([]byte); ok {
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			w.t.Fatalf("%s: %v", what, err)
		}
		got = n
	}
	if granted && number-w.model.Now > fence.Limit && got >= number && got-number < 1_000_000 {
		for _, name := range names { // it started again, by the server's clock
			w.model.Entry(name).Fence = got
		}
		return
	}
	if want := map[bool]int64{true: number}[granted]; got != want {
		w.t.Fatalf("%s: the script says %d, the model %d", what, got, want)
	}
}

func (w *pair) acquire(*rapid.T) {
	names, value, ts := w.names(), w.value(), w.timestamp()
	reply := w.run(names, []any{value, pairTTL, ts, pairLife}, acquires...)
	number, granted := w.model.Acquire(names, value, ts)
	w.same("acquire", names, reply, number, granted)
}

func (w *pair) wait(*rapid.T) {
	name, value, ts := w.name(), w.value(), w.timestamp()
	reply := w.run([]string{name}, []any{
		value, pairTTL, pairGrace, 1, pairProcess(value), 0, 100, "", ts, pairLife,
	}, waits...).([]any)
	number, granted := w.model.Pilot(name, value, ts)
	if reply[0] == int64(1) {
		w.same("wait", []string{name}, reply[1], number, granted)
		return
	}
	w.same("wait", nil, nil, number, granted)
	if reply[1] != int64(1) || reply[2].(int64) <= 0 || reply[3] != int64(1) {
		w.t.Fatalf("wait: %v", reply)
	}
}

func (w *pair) release(*rapid.T) {
	names, value := w.names(), w.value()
	args := []any{value, pairGrace}
	leaves := rapid.Bool().Draw(w.t, "leaves")
	if leaves {
		args = append(args, pairProcess(value))
	}
	reply := w.run(names, args, releases...)
	want, handed := int64(1), false
	for _, name := range names {
		do := w.model.Entry(name).Release
		if leaves {
			do = w.model.Entry(name).Leave
		}
		to, released := do(value, pairAlive)
		handed = handed || to != ""
		if !released {
			want = 0
		}
	}
	if want == 1 && handed {
		want = 2
	}
	if reply != want {
		w.t.Fatalf("release: the script says %v, the model %d", reply, want)
	}
}

func (w *pair) raise(*rapid.T) {
	names, value := w.names(), w.value()
	to := w.model.Entry(names[0]).Fence + rapid.Int64Range(-1, 2).Draw(w.t, "above")
	if to <= 2 {
		w.t.Skip("no counter yet")
	}
	// Or far from the limit up to which the node follows, since its clock goes on meanwhile.
	to += rapid.SampledFrom([]int64{0, 0, 0, 10_000_000, 100_000_000, pairLife * 1000, 2 * pairLife * 1000}).Draw(w.t, "far")
	reply := w.run(names, []any{value, strconv.FormatInt(to, 10), pairLife}, raises...)
	if raised := w.model.Raise(names, value, to, pairLife*1000); (reply == int64(1)) != raised {
		w.t.Fatalf("raise: the script says %v, the model %v", reply, raised)
	}
}

func (w *pair) mend(*rapid.T) {
	names, value := w.names(), w.value()
	given := w.model.Entry(names[0]).Fence + rapid.Int64Range(0, 1).Draw(w.t, "above")
	if given <= 0 {
		w.t.Skip("no counter yet, or none any more")
	}
	to := w.timestamp() + rapid.SampledFrom([]int64{0, 5_000_000, 60_000_000}).Draw(w.t, "to")
	reply := w.run(names, []any{value, strconv.FormatInt(given, 10), strconv.FormatInt(to, 10), pairLife}, mendSource)
	if mended := w.model.Mend(names, value, given, to); reply != map[bool]int64{true: 1}[mended] {
		w.t.Fatalf("mend: the script says %v, the model %v", reply, mended)
	}
}

// spoil writes something that is no counter, or a counter that is far ahead.
func (w *pair) spoil(*rapid.T) {
	name := w.name()
	counter := fenceKey + name
	w.model.Entry(name).Fence = fence.Unreadable
	switch rapid.IntRange(0, 3).Draw(w.t, "what") {
	case 0:
		w.do("SET", counter, rapid.SampledFrom([]string{"", "x", "nan", "inf", "9007199254740990", "1e300"}).Draw(w.t, "text"))
	case 1:
		w.do("DEL", counter)
		w.do("RPUSH", counter, "1")
	case 2:
		w.do("DEL", counter)
		w.do("ZADD", counter, 1, "x")
	case 3:
		ahead := w.timestamp() + 3_600_000_000
		w.do("SET", counter, ahead)
		w.model.Entry(name).Fence = ahead
	}
}

func (w *pair) adopt(*rapid.T) {
	name, old, value, ts := w.name(), w.value(), w.value(), w.timestamp()
	reply := w.run([]string{name}, []any{old, value, pairTTL, ts, pairLife}, fenceSource, adoptSource)
	number, granted := w.model.Adopt([]string{name}, old, value, ts)
	w.same("adopt", []string{name}, reply, number, granted)
}

func (w *pair) expire(*rapid.T) {
	name := w.name()
	w.do("DEL", name)
	w.model.Entry(name).Expire()
}

// compare compares everything that is kept.
func (w *pair) compare(*rapid.T) {
	for _, name := range pairNames {
		entry := w.model.Entry(name)
		want := fmt.Sprintf("%s %d %q", entry.Value, entry.Fence, entry.Waiting)
		value, err := redis.String(w.conn.Do("GET", name))
		if err != nil && !errors.Is(err, redis.ErrNil) {
			w.t.Fatal(err)
		}
		number, err := redis.Int64(w.conn.Do("GET", fenceKey+name))
		if entry.Fence == fence.Unreadable {
			number, err = fence.Unreadable, nil
		}
		if err != nil && !errors.Is(err, redis.ErrNil) {
			w.t.Fatal(err)
		}
		members, err := redis.Strings(w.conn.Do("ZRANGE", "redquorum:wait:"+name, 0, -1))
		if err != nil {
			w.t.Fatal(err)
		}
		waiting := []string(nil)
		for _, member := range members {
			_, value, _ := strings.Cut(member, ":")
			waiting = append(waiting, value)
		}
		if got := fmt.Sprintf("%s %d %q", value, number, waiting); got != want {
			w.t.Fatalf("%s: the server keeps %s, the model %s", name, got, want)
		}
	}
}

const fenceKey = "redquorum:fence:"
