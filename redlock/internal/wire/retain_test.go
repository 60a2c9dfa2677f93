package wire

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// retained is a lock's key in the model of retain.lua, with the note of an adoption and the list.
// Times are in seconds: -1 for no end.
type retained struct {
	value   string // empty: absent
	ends    int
	adopter string // the value with a note; empty for none
	note    string // the value that it is being adopted from; empty for no note
	noted   int
	waiting []string // values, oldest first
}

// release is a plain release: the key goes to the oldest waiter that listens, or is deleted.
func (e *retained) release(value string) int64 {
	if e.value != value {
		if e.value != "" && e.value == e.adopter && e.note == value {
			e.note = ""
		}
		return 0
	}
	e.value = ""
	for len(e.waiting) > 0 && e.value == "" {
		if oldest := e.waiting[0]; pairAlive(oldest) {
			e.value, e.ends = oldest, pairGrace/1000
		}
		e.waiting = e.waiting[1:]
	}
	if e.value != "" {
		return 2
	}
	return 1
}

// retain makes what the caller holds, or would get back, end with the rest, and never later.
func (e *retained) retain(value string, rest int) int64 {
	shorter := func(ends int) int {
		if ends < 0 {
			return rest
		}
		return min(ends, rest)
	}
	switch {
	case rest <= 0:
		return e.release(value)
	case e.value == value:
		e.ends = shorter(e.ends)
		return 1
	case e.value != "" && e.value == e.adopter && e.note == value:
		e.noted = shorter(e.noted)
	}
	return 0
}

// retainPair is a server and the model.
type retainPair struct {
	t     *rapid.T
	conn  redis.Conn
	names []string
	model map[string]*retained
}

func (p *retainPair) do(command string, args ...any) any {
	reply, err := p.conn.Do(command, args...)
	if err != nil {
		p.t.Fatalf("%s %q: %v", command, args, err)
	}
	return reply
}

func (p *retainPair) set(key, value string, ends int) {
	p.do("SET", key, value)
	if ends >= 0 {
		p.do("EXPIRE", key, ends)
	}
}

// prepare gives each name a holder or none, an adoption or none, and waiters.
func (p *retainPair) prepare() {
	p.do("FLUSHALL")
	times := rapid.SampledFrom([]int{-1, 100, 200, 300})
	values := rapid.SampledFrom(pairValues)
	for _, name := range p.names {
		e := &retained{}
		p.model[name] = e
		if rapid.IntRange(0, 9).Draw(p.t, "held") > 0 {
			e.value, e.ends = rapid.SampledFrom(pairValues[:2]).Draw(p.t, "holder"), times.Draw(p.t, "ends")
			p.set(name, e.value, e.ends)
			if rapid.Bool().Draw(p.t, "adopted") {
				e.note, e.noted = values.Draw(p.t, "from"), times.Draw(p.t, "noted")
				e.adopter = e.value
				p.set(p.noteOf(name, e.adopter), e.note, e.noted)
			}
		}
		for i := range rapid.IntRange(0, 3).Draw(p.t, "waiters") {
			if value := values.Draw(p.t, "waiter"); !slices.Contains(e.waiting, value) {
				e.waiting = append(e.waiting, value)
				p.do("ZADD", "redquorum:wait:"+name, i, pairProcess(value)+":"+value)
				p.do("SET", "redquorum:waits:"+name, "")
			}
		}
	}
}

func (*retainPair) noteOf(name, value string) string { return adoptionNote + name + ":" + value }

// ends returns when a key ends: to ten seconds, because time passes.
func (p *retainPair) ends(key string) int {
	millis := p.do("PTTL", key).(int64)
	if millis < 0 {
		return int(millis) // -2: absent
	}
	return int((millis + 9999) / 10_000 * 10)
}

// state returns what the server has under a name, and what the model has.
func (p *retainPair) state(name string) (server, model string) {
	text := func(key string) string {
		value, err := redis.String(p.conn.Do("GET", key))
		if err != nil {
			return ""
		}
		return value
	}
	members, err := redis.Strings(p.do("ZRANGE", "redquorum:wait:"+name, 0, -1), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	e, note := p.model[name], p.noteOf(name, p.model[name].adopter)
	waiting := []string{}
	for _, value := range e.waiting {
		waiting = append(waiting, pairProcess(value)+":"+value)
	}
	at := func(value string, ends int) int {
		if value == "" {
			return -2
		}
		return ends
	}
	return fmt.Sprintf("%q %d, note %q %d, %q", text(name), p.ends(name), text(note), p.ends(note), members),
		fmt.Sprintf("%q %d, note %q %d, %q", e.value, at(e.value, e.ends), e.note, at(e.note, e.noted), waiting)
}

// The rest is the end of every key that the caller holds, unless the key ends before.
func TestARetainDoesWhatItsModelDoes(t *testing.T) {
	server := redistest.StartOne(t)
	conn, err := redis.Dial("tcp", server.Addr())
	require.NoError(t, err)
	defer conn.Close()
	listen(t, server)
	rapid.Check(t, func(t *rapid.T) {
		p := &retainPair{
			t: t, conn: conn, model: map[string]*retained{},
			names: rapid.SampledFrom([][]string{{"x"}, {"x"}, {"x", "y"}, {"z", "x", "y"}}).Draw(t, "names"),
		}
		p.prepare()
		for range rapid.IntRange(1, 3).Draw(t, "times") { // late, and again
			value, rest := rapid.SampledFrom(pairValues[:2]).Draw(t, "caller"), rapid.SampledFrom([]int{0, 50, 150, 250}).Draw(t, "rest")
			process := ""
			if rapid.Bool().Draw(t, "leaves") {
				process = pairProcess(value)
			}
			args := []any{bare(retains), len(p.names)}
			for _, name := range p.names {
				args = append(args, name)
			}
			reply := p.do("EVAL", append(args, value, pairGrace, process, rest*1000)...)
			want := int64(1)
			for _, name := range p.names {
				e := p.model[name]
				if process != "" {
					e.waiting = slices.DeleteFunc(e.waiting, func(v string) bool { return v == value })
				}
				switch how := e.retain(value, rest); {
				case how == 0 || want == 0:
					want = 0
				default:
					want = max(want, how)
				}
			}
			if reply != want {
				t.Fatalf("the script says %v, the model %d", reply, want)
			}
			for _, name := range p.names {
				if got, want := p.state(name); got != want {
					t.Fatalf("%s: the server has\n%s\nthe model\n%s", name, got, want)
				}
			}
		}
	})
}
