package wire

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/ledger"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/spec"
)

// The script that changes markers does what the model's does, whatever the key holds.
func TestTheMemoryScriptDoesWhatTheModelDoes(t *testing.T) {
	texts := []string{"", "active a b 0 60000 c", "new until 5 a b 0 60000 c", "hello", " ", pipeline.OtherType}
	check(t, func(p *pair) {
		held := draw(p, "held", texts...)
		switch held {
		case "":
		case pipeline.OtherType:
			p.do(draw(p, "type", "RPUSH", "SADD"), pipeline.MemoryKey, "x")
		default:
			p.do("SET", pipeline.MemoryKey, held)
		}
		before := p.now() / 1000
		second := before / 1000 * 1000
		expected, begin := draw(p, "expected", texts...), draw(p, "begin", "", "new", "lost", "active")
		wait := draw[int64](p, "wait", 0, 0, 1, 60_000, 24*60*60*1000)
		due := draw(p, "due", 0, 1, second, second+100_000, math.MaxInt32*1000)
		reply := p.eval([]string{pipeline.MemoryKey}, []any{expected, begin, "rest of it", wait, due}, "memory")
		said, now, ok := ReadMemory(reply)
		p.same("understood", ok, true)
		want := spec.Swap(held, expected, begin, "rest of it", wait, due, now)
		p.same("answer", said, want)
		if want != held {
			p.same("kept", p.get(pipeline.MemoryKey), want)
		}
		p.same("time goes on", now >= before, true)
	})
}

// The script that changes what a master knows of its cluster does what the model's does, whatever
// the two keys hold.
func TestTheMembersScriptDoesWhatTheModelDoes(t *testing.T) {
	markers := []string{"", "active a b 0 60000 c", "lost until 5 a b 0 60000 c", pipeline.OtherType}
	registers := []string{"", "1\nof it", "5\nof it", "1\nof another", pipeline.OtherType}
	check(t, func(p *pair) {
		hold := func(key, text string) {
			switch text {
			case "":
			case pipeline.OtherType:
				p.do(draw(p, "type", "RPUSH", "SADD"), key, "x")
			default:
				p.do("SET", key, text)
			}
		}
		held := spec.Page{Marker: draw(p, "marker", markers...), Register: draw(p, "register", registers...)}
		hold(pipeline.MemoryKey, held.Marker)
		hold(pipeline.RegisterKey, held.Register)
		expected := held
		if p.flip("other marker") {
			expected.Marker = draw(p, "expected", markers...)
		}
		if p.flip("other register") {
			expected.Register = draw(p, "expected", registers...)
		}
		now := p.now() / 1000
		times := []int64{0, 0, 1, now - 100_000, now + 100_000}
		c := spec.PageChange{
			Marker: draw(p, "new marker", "", "active", "active a"), Register: draw(p, "new register", "", "of it"),
			Since: draw(p, "since", "", "1", "5"), Due: draw(p, "due", times...), Latest: draw(p, "latest", times...),
		}
		reply := p.ask(Members(expected.Marker, expected.Register, Entry(c)))
		marker, register, said, ok := ReadMembers(reply)
		p.same("understood", ok, true)
		want := spec.SwapPage(held, expected, c, said)
		p.same("answer", spec.Page{Marker: marker, Register: register}, want)
		for key, text := range map[string]string{pipeline.MemoryKey: want.Marker, pipeline.RegisterKey: want.Register} {
			if text != pipeline.OtherType {
				p.same("kept", p.get(key), text)
			}
		}
		p.same("time goes on", said >= now, true)
	})
}

func TestANodeTellsTheNewestTermsAboveOne(t *testing.T) {
	s := newServer(t)
	record := func(number int64, value string) {
		reply := s.onA([]any{number, inWords(number) + " " + value, 60000, 3}, "record")
		assert.Equal(t, int64(1), reply)
	}
	for number := range int64(5) {
		record(number+1, "value|with spaces")
	}
	record(5, "value|with spaces") // again
	s.do("SET", "a", "value|with spaces", "PX", 60000)
	entry := func(term int64) ledger.Entry { return ledger.Entry{Term: term, Value: "value|with spaces"} }
	for _, c := range []struct {
		since, most int
		want        []ledger.Entry
	}{
		{0, 8, []ledger.Entry{entry(3), entry(4), entry(5)}},
		{4, 8, []ledger.Entry{entry(5)}},
		{0, 1, []ledger.Entry{entry(5)}},
		{5, 8, nil},
	} {
		answer, ok := ReadRecorded(s.onA([]any{c.since, c.most}, "recorded"))
		require.True(t, ok)
		assert.Equal(t, c.want, answer.Entries)
		assert.Equal(t, "value|with spaces", answer.Value)
		assert.InDelta(t, time.Minute, answer.TTL, float64(30*time.Second))
	}
	assert.InDelta(t, 60000, s.left("redquorum:terms:a"), 30000)
}
