package wire

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/internal/proof/search/shared"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// sharedPair is a server that runs the scripts of shared locks, and a node of the model in which
// violations are searched for. Both get the same commands, and must answer the same and keep the
// same.
type sharedPair struct {
	t     *rapid.T
	conn  redis.Conn
	model *shared.Entry[string]
}

const (
	sharedKey   = "x"
	sharedGrace = 100_000

	// Times of the model are behind those of the server by as long as a step takes. Times to live
	// differ by more.
	sharedSlack = 40_000
)

var (
	sharedReaders = pairValues[:3]
	sharedWriters = pairValues[3:]
	sharedTimes   = []int64{200_000, 300_000, 400_000}
)

func TestSharedScriptsDoWhatTheModelDoes(t *testing.T) {
	server := redistest.Start(t, 1)[0]
	conn, err := redis.Dial("tcp", server.Addr())
	require.NoError(t, err)
	defer conn.Close()
	listen(t, server)
	rapid.Check(t, func(t *rapid.T) {
		marker, err := redis.String(conn.Do("EVAL", bare([]string{sharedSource, "return marker"}), 0))
		require.NoError(t, err)
		w := &sharedPair{t: t, conn: conn, model: &shared.Entry[string]{Marker: marker}}
		w.do("FLUSHALL")
		t.Repeat(map[string]func(*rapid.T){
			"":              w.compare,
			"acquire read":  w.acquireRead,
			"wait to read":  w.waitRead,
			"extend read":   w.extendRead,
			"release read":  w.releaseRead,
			"raise read":    w.raiseRead,
			"verify read":   w.verifyRead,
			"acquire write": w.acquireWrite,
			"announce":      w.announce,
			"intend":        w.intend,
			"wait to write": w.waitWrite,
			"wait":          w.waitUnannounced,
			"extend write":  w.extendWrite,
			"release write": w.releaseWrite,
			"lapse":         w.lapse,
			"lose":          w.lose,
		})
	})
}

func (w *sharedPair) do(command string, args ...any) any {
	reply, err := w.conn.Do(command, args...)
	if err != nil {
		w.t.Fatalf("%s %q: %v", command, args, err)
	}
	return reply
}

// tick moves the model's clock to the server's, and returns it in microseconds.
func (w *sharedPair) tick() int64 {
	now, err := redis.Ints(w.conn.Do("TIME"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.model.Now = int64(now[0])*1000 + int64(now[1])/1000
	return int64(now[0])*1_000_000 + int64(now[1])
}

func (w *sharedPair) run(args []any, sources []string) any {
	return w.do("EVAL", append([]any{bare(sources), 1, sharedKey}, args...)...)
}

func (w *sharedPair) same(what string, reply, want any) {
	if text, ok := reply.([]byte); ok {
		reply = string(text)
	}
	if reply != want {
		w.t.Fatalf("%s: the script says %v, the model %v", what, reply, want)
	}
}

// granted is what a script answers to an acquisition.
func granted(fence int64, ok bool) any {
	if !ok {
		return int64(0)
	}
	return strconv.FormatInt(fence, 10)
}

func (w *sharedPair) reader() string { return rapid.SampledFrom(sharedReaders).Draw(w.t, "reader") }
func (w *sharedPair) writer() string { return rapid.SampledFrom(sharedWriters).Draw(w.t, "writer") }
func (w *sharedPair) ttl() int64     { return rapid.SampledFrom(sharedTimes).Draw(w.t, "ttl") }

// timestamp is often the same, and not clamped. Counters are often ahead of it.
func (w *sharedPair) timestamp() int64 {
	return w.tick()/5_000_000*5_000_000 + rapid.Int64Range(-2, 2).Draw(w.t, "timestamp")
}

// turn draws whether a reader's turn has come, for the model and for the script.
func (w *sharedPair) turn() (bool, string) {
	turn := rapid.Bool().Draw(w.t, "turn")
	return turn, map[bool]string{true: "1"}[turn]
}

func (w *sharedPair) acquireRead(*rapid.T) {
	value, ttl, ts := w.reader(), w.ttl(), w.timestamp()
	turn, flag := w.turn()
	reply := w.run([]any{value, ttl, flag, pairProcess(value), ts, pairLife}, sharedAcquires)
	w.same("read", reply, granted(w.model.AcquireRead(value, ttl, ts, turn)))
}

func (w *sharedPair) waitRead(*rapid.T) {
	value, ttl, ts := w.reader(), w.ttl(), w.timestamp()
	turn, flag := w.turn()
	args := []any{value, ttl, sharedGrace, flag, pairProcess(value), 0, 100, "", ts, pairLife}
	reply := w.waited(w.run(args, sharedWaits), "")
	w.same("wait to read", reply, granted(w.model.WaitRead(value, ttl, ts, turn, sharedGrace, pairAlive)))
}

// waited is what a script that waits answers to an acquisition. If it did not grant, the caller is
// on the list. Met is the key that a writer meets.
func (w *sharedPair) waited(reply any, met string) any {
	answers := reply.([]any)
	if answers[0] == int64(1) {
		return answers[1]
	}
	want := []any{int64(0), int64(1), answers[2], int64(1)}
	if met == w.model.Marker {
		want = append(want, int64(-4))
	}
	if !slices.Equal(answers, want) || answers[2].(int64) <= 0 {
		w.t.Fatalf("the script says %v", answers)
	}
	return int64(0)
}

// answers are those of the scripts.
var answers = [...]int64{shared.Refused: 0, shared.Extended: 1, shared.Healed: 2}

// extended is the answer for the only key. A script may say in one word that all were extended.
func extended(reply any) any {
	if votes, ok := reply.([]any); ok {
		return votes[0]
	}
	return answers[shared.Extended]
}

func (w *sharedPair) extendRead(*rapid.T) {
	value, ttl := w.reader(), w.ttl()
	w.tick()
	reply := w.run([]any{value, fmt.Sprintf("+%d", ttl)}, sharedExtends)
	w.same("extend read", extended(reply), answers[w.model.ExtendRead(value, ttl)])
}

func (w *sharedPair) releaseRead(*rapid.T) {
	value := w.reader()
	w.tick()
	reply := w.run([]any{value, sharedGrace, pairProcess(value)}, sharedReleases)
	last := !slices.ContainsFunc(w.model.Members, func(m shared.Member[string]) bool {
		return m.Value != value && m.Until > w.model.Now
	})
	want := int64(0)
	if w.model.ReleaseRead(value, sharedGrace, pairAlive) {
		want = 1
		if last && w.model.Key != "" {
			want = 2
		}
	}
	w.same("release read", reply, want)
}

func (w *sharedPair) raiseRead(*rapid.T) {
	value := w.reader()
	to := w.model.Fence + rapid.Int64Range(-1, 2).Draw(w.t, "above")
	if to <= 2 {
		w.t.Skip("no counter yet")
	}
	w.tick()
	reply := w.run([]any{value, strconv.FormatInt(to, 10), pairLife}, sharedRaises)
	w.same("raise read", reply, map[bool]int64{true: 1}[w.model.RaiseRead(value, to)])
}

func (w *sharedPair) verifyRead(*rapid.T) {
	value := w.reader()
	w.tick()
	reads := w.model.Key == w.model.Marker && slices.ContainsFunc(w.model.Members, func(m shared.Member[string]) bool {
		return m.Value == value && m.Until > w.model.Now
	})
	w.same("verify read", w.run([]any{value}, sharedVerifies), map[bool]int64{true: 1}[reads])
}
