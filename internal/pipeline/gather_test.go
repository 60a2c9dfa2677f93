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
			n, c := &Node{}, &conn{mayLoad: mayLoad}
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
	loaded := map[*Script]bool{}
	for c.pending.len() > 0 {
		words, err := redis.Strings(reader.Receive())
		require.NoError(t, err)
		if words[0] == "SCRIPT" {
			require.True(t, c.pending.pop().completed)
			loaded[gathered()["EVAL "+words[2]]] = true
			continue
		}
		script, calls := split(t, words, loaded)
		for i, want := range calls {
			call := c.pending.pop()
			var got []string
			for word, rest := "", call.Request.Words.text+call.Request.Words.tail; rest != ""; {
				word, rest = NextWord(rest)
				got = append(got, word)
			}
			require.Equal(t, want, got)
			require.True(t, script == call.Request.Script)
			require.Equal(t, words[0] == "EVAL", call.eval)
			require.EqualValues(t, []int{len(calls), 0}[min(i, 1)], call.together)
		}
	}
	_, err := reader.Receive()
	require.Error(t, err, "nothing follows")
}

// gathered returns the scripts by the words that run them.
func gathered() map[string]*Script {
	all := map[string]*Script{}
	for source, s := range map[string]*Script{
		"a": gatherA, "as": gatherA.batch.script, "b": gatherB, "bs": gatherB.batch.script, "alone": gatherAlone,
	} {
		all["EVAL "+source], all["EVALSHA "+s.Digest()] = s, s
	}
	return all
}

// split returns the script that a command runs for each of its calls (nil for a plain command), and
// the words of each: its keys and its arguments.
func split(t *testing.T, words []string, loaded map[*Script]bool) (script *Script, calls [][]string) {
	script = gathered()[words[0]+" "+words[1]]
	if script == nil {
		return nil, [][]string{words}
	}
	require.True(t, words[0] == "EVAL" || loaded[script], "it was loaded")
	loaded[script] = true
	for _, of := range []*Script{gatherA, gatherB} {
		if of.batch.script != script {
			continue
		}
		n, err := strconv.Atoi(words[2])
		require.NoError(t, err)
		require.LessOrEqual(t, n, of.batch.most)
		keys, args := words[3:3+n], words[3+n:]
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(keys))), n, "the keys of a batch differ")
		require.Len(t, args, n*of.batch.args)
		for i, key := range keys {
			calls = append(calls, append([]string{key}, args[i*of.batch.args:][:of.batch.args]...))
		}
		return of, calls
	}
	return script, [][]string{words[3:]}
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
			c := &conn{mayLoad: random.IntN(2) == 0, network: readOnly{}}
			batch := n.takeBatch(c, nil)
			n.takeBackLocked(c, len(batch), io.ErrClosedPipe)
			require.Zero(t, c.pending.len())
		}
		c := &conn{mayLoad: random.IntN(2) == 0}
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
	c := &conn{mayLoad: true, network: readOnly{}}
	batch := n.takeBatch(c, nil)
	for range 4 {
		c.pending.pop()
	}
	left := c.pending.len()
	n.takeBackLocked(c, len(batch), io.ErrClosedPipe)
	assert.Equal(t, left, n.queue.len())
}

// A batch has one reply, so a surplus reply behind it is one that nobody asked for.
func TestABatchCountsAsOneCommand(t *testing.T) {
	n, c := &Node{}, &conn{mayLoad: true, stream: sink{}}
	for _, choice := range []byte{4, 20, 36} {
		n.queue.push(gatherCall(choice, 1))
	}
	require.NoError(t, c.send(n.takeBatch(c, nil)))
	assert.EqualValues(t, 2, c.in.asked.Load(), "SCRIPT LOAD and the batch")
}

// sink is a connection that takes everything.
type sink struct{ net.Conn }

func (sink) Write(p []byte) (int, error) { return len(p), nil }

func TestRingKeepsOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var r ring
	var want []Call
	for range 2000 {
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
