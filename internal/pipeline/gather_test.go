package pipeline

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Scripts of the tests of gathering. Two of them are run in batches, of different lengths.
var (
	gatherA     = NewScript("a").Batch(NewScript("as"), 1, 3)
	gatherB     = NewLateScript("b").Batch(NewLateScript("bs"), 2, 5)
	gatherAlone = NewScript("alone")
)

// gatherCall returns a call that a byte chooses. Its last word is unique.
func gatherCall(choice byte, n int) Call {
	key, text := string('k'+rune(choice>>4%4)), strconv.Itoa(n)
	r := &Request{Key: key, Sink: nobody{}}
	c := Call{Request: r}
	switch choice % 8 {
	case 0, 1:
		r.Words = Command("SET", key, text)
	case 2, 3:
		r.Script, r.Words = gatherA, On([]string{key}, text)
	case 4, 5:
		r.Script, r.Words = gatherB, On([]string{key}, "x", text)
		c.eval = choice>>3%2 == 1
	case 6: // several keys, of which it writes all
		r.Script, r.Words = gatherA, On([]string{key, key + "'"}, text)
	case 7:
		switch choice >> 3 % 4 {
		case 0: // a key that is not known
			r.Words, r.Key = Command("ECHO", text), ""
		case 1:
			r.Script, r.Words = gatherAlone, On([]string{key}, text)
		case 2:
			r.Script, r.Words, c.alone = gatherA, On([]string{key}, text), true
		case 3: // leaves a list, too
			r.Script, r.Words = gatherB, On([]string{key}, "x", "y", text)
		}
	}
	return c
}

// touches reports whether two calls must stay in their order.
func touches(a, b *Request) bool {
	return a.Key == b.Key || a.Key == "" || b.Key == "" || a.Words.keys > 1 || b.Words.keys > 1
}

// FuzzGathering checks that every call is sent once, that calls for one key keep their order, and
// that the server gets what the calls say.
func FuzzGathering(f *testing.F) {
	f.Add([]byte{2, 18, 34, 50, 4, 20, 36, 2, 0, 6, 7, 15, 23, 31, 2, 18})
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		seed := make([]byte, 40)
		for i := range seed {
			seed[i] = byte(random.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		for _, mayLoad := range []bool{true, false} {
			n, c := &Node{}, &conn{mayLoad: mayLoad, guard: &guard{}}
			var made []*Request
			for i, choice := range choices[:min(len(choices), 200)] {
				call := gatherCall(choice, i)
				made = append(made, call.Request)
				n.queue.push(call)
			}
			batch := n.takeBatch(c, nil)
			require.Empty(t, c.gathering.groups)
			require.Zero(t, c.gathering.held)
			require.Len(t, batch, c.pending.len())
			checkOrder(t, made, sentCalls(&c.pending))
			checkCommands(t, c, batch)
		}
	})
}

// sentCalls returns what was asked, without the calls that load scripts.
func sentCalls(pending *ring) (sent []*Request) {
	for i := range pending.len() {
		if call := pending.at(i); !call.completed {
			sent = append(sent, call.Request)
		}
	}
	return sent
}

func checkOrder(t *testing.T, made, sent []*Request) {
	at := make(map[*Request]int)
	for i, call := range sent {
		at[call] = i
	}
	require.Len(t, sent, len(made))
	require.Len(t, at, len(made), "each once")
	for i, later := range made {
		for _, earlier := range made[:i] {
			if touches(earlier, later) && at[earlier] > at[later] {
				t.Fatalf("%v overtook %v", later.Words, earlier.Words)
			}
		}
	}
}

// checkCommands reads what is written as a server does, and compares it with the pending calls.
func checkCommands(t *testing.T, c *conn, batch []outgoing) {
	var out []byte
	for i := range batch {
		if batch[i].together > 0 {
			out = appendCommand(out, batch[i:][:batch[i].together])
		}
	}
	reader := redis.NewConn(readOnly{Reader: bytes.NewReader(out)}, 0, 0)
	loaded := map[string]bool{}
	for c.pending.len() > 0 {
		words, err := redis.Strings(reader.Receive())
		require.NoError(t, err)
		first := *c.pending.at(0)
		if first.completed {
			loaded[words[2]] = true
			c.pending.pop()
			continue
		}
		var calls []Call
		for range max(first.together, 1) {
			calls = append(calls, c.pending.pop())
		}
		require.Equal(t, wantWords(t, calls, loaded), words)
	}
	_, err := reader.Receive()
	require.Error(t, err, "nothing follows")
}

// wantWords returns the command that runs the calls.
func wantWords(t *testing.T, calls []Call, loaded map[string]bool) (want []string) {
	var all [][]string
	for _, call := range calls {
		var words []string
		for rest := call.Request.Words.text + call.Request.Words.tail; rest != ""; {
			var word string
			word, rest = NextWord(rest)
			words = append(words, word)
		}
		all = append(all, words)
	}
	script := calls[0].Request.Script
	if script == nil {
		return all[0]
	}
	keys := int(calls[0].Request.Words.keys)
	if len(calls) > 1 {
		require.LessOrEqual(t, len(calls), script.batch.most)
		for _, words := range all {
			require.Len(t, words, 1+script.batch.args, "each call has one key and its arguments")
		}
		script = script.batch.script
	}
	name, rest := NextWord(script.short)
	text, _ := NextWord(rest)
	if calls[0].eval {
		name, rest = NextWord(script.full)
		text, _ = NextWord(rest)
		loaded[text] = true
	} else {
		source, _ := NextWord(script.full[len("$4\r\nEVAL\r\n"):])
		require.True(t, loaded[source], "%q was loaded", source)
	}
	want = []string{name, text, strconv.Itoa(keys * len(calls))}
	distinct := map[string]bool{}
	for i, call := range calls {
		want = append(want, all[i][:keys]...)
		distinct[call.Request.Key] = true
		require.Equal(t, calls[0].eval, call.eval)
	}
	require.Len(t, distinct, len(calls), "the keys of a batch differ")
	for i := range calls {
		want = append(want, all[i][keys:]...)
	}
	return want
}

// What could not be written goes back, also in its second batch and in what was loaded for it, and
// is sent in the same order on the next connection.
func TestAnUnwrittenBatchGoesBackInItsOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n := &Node{}
		var made []*Request
		for i := range 1 + random.IntN(100) {
			call := gatherCall(byte(random.Uint32()), i)
			made = append(made, call.Request)
			n.queue.push(call)
		}
		for range 1 + random.IntN(2) {
			c := &conn{mayLoad: random.IntN(2) == 0, guard: &guard{}, network: readOnly{}}
			batch := n.takeBatch(c, nil)
			n.takeBack(c, len(batch), io.ErrClosedPipe)
			require.Zero(t, c.pending.len())
		}
		c := &conn{mayLoad: random.IntN(2) == 0, guard: &guard{}}
		batch := n.takeBatch(c, nil)
		checkOrder(t, made, sentCalls(&c.pending))
		checkCommands(t, c, batch)
	}
}

// A wrong server may have answered what was never written.
func TestWhatWasAnsweredTooEarlyDoesNotGoBack(t *testing.T) {
	n := &Node{}
	for i := range 9 {
		n.queue.push(gatherCall(2, i))
	}
	c := &conn{mayLoad: true, guard: &guard{}, network: readOnly{}}
	batch := n.takeBatch(c, nil)
	for range 4 {
		c.pending.pop()
	}
	left := c.pending.len()
	n.takeBack(c, len(batch), io.ErrClosedPipe)
	assert.Equal(t, left, n.queue.len())
}

// A batch has one reply, so a surplus reply behind it is one that nobody asked for.
func TestABatchCountsAsOneCommand(t *testing.T) {
	n, c := &Node{}, &conn{mayLoad: true, guard: &guard{Conn: sink{}}}
	for _, choice := range []byte{4, 20, 36} {
		n.queue.push(gatherCall(choice, 1))
	}
	require.NoError(t, c.send(n.takeBatch(c, nil)))
	assert.EqualValues(t, 2, c.guard.asked.Load(), "SCRIPT LOAD and the batch")
}

// sink is a connection that takes everything.
type sink struct{ net.Conn }

func (sink) Write(p []byte) (int, error) { return len(p), nil }

func TestRingKeepsOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var r ring
	var want []Call
	for range 10_000 {
		c := Call{Request: &Request{}}
		switch step := random.IntN(100); {
		case step < 45:
			r.push(c)
			want = append(want, c)
		case step < 60:
			r.unshift(c)
			want = slices.Insert(want, 0, c)
		case len(want) == 0:
		case step < 85:
			require.Equal(t, want[0], r.pop())
			want = want[1:]
		case step < 99:
			require.Equal(t, want[len(want)-1], r.popLast())
			want = want[:len(want)-1]
		default:
			first := want[0].Request
			r.filter(func(c *Call) bool { return c.Request != first })
			want = want[1:]
		}
		require.Equal(t, len(want), r.len())
		for i := range want {
			require.Same(t, want[i].Request, r.at(i).Request)
		}
	}
}
