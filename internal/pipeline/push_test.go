package pipeline

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
)

func TestPushesAreReadInEveryEntry(t *testing.T) {
	bulk := func(text string) []byte { return []byte(text) }
	for _, c := range []struct {
		reply any
		want  push
		ok    bool
	}{
		{[]any{bulk("message"), bulk("c"), bulk("m")}, push{kind: pushMessage, channel: "c", text: "m"}, true},
		{[]any{bulk("message"), bulk(""), bulk("")}, push{kind: pushMessage}, true},
		{[]any{bulk("subscribe"), bulk("c"), int64(1)}, push{kind: pushSubscribe, channel: "c"}, true},
		{[]any{bulk("unsubscribe"), bulk("c"), int64(0)}, push{kind: pushUnsubscribe, channel: "c"}, true},
		{[]any{bulk("pong"), bulk("t")}, push{kind: pushPong, text: "t"}, true},
		{reply: nil},
		{reply: []any{}},
		{reply: []any{bulk("message")}},
		{reply: []any{"message", bulk("c"), bulk("m")}},
		{reply: []any{nil, bulk("c"), bulk("m")}},
		{reply: []any{bulk("Message"), bulk("c"), bulk("m")}},
		{reply: []any{bulk("message"), nil, bulk("m")}},
		{reply: []any{bulk("message"), bulk("c"), nil}},
		{reply: []any{bulk("message"), bulk("c"), redis.Error("ERR")}},
		{reply: []any{bulk("message"), bulk("c"), bulk("m"), bulk("m")}},
		{reply: []any{bulk("subscribe"), bulk("c"), int64(2)}},
		{reply: []any{bulk("subscribe"), bulk("c"), bulk("1")}},
		{reply: []any{bulk("subscribe"), nil, int64(1)}},
		{reply: []any{bulk("subscribe"), bulk("c")}},
		{reply: []any{bulk("unsubscribe"), nil, int64(0)}},
		{reply: []any{bulk("pong"), bulk("t"), bulk("t")}},
		{reply: []any{bulk("pong"), int64(1)}},
		{reply: []any{bulk("pong"), nil}},
	} {
		got, ok := parsePush(c.reply)
		assert.Equal(t, c.ok, ok, "%q", c.reply)
		if c.ok {
			assert.Equal(t, c.want, got, "%q", c.reply)
		}
	}
}

// wire returns the push as a server writes it.
func (p push) wire() string {
	bulk := func(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }
	switch p.kind {
	case pushMessage:
		return "*3\r\n" + bulk("message") + bulk(p.channel) + bulk(p.text)
	case pushSubscribe:
		return "*3\r\n" + bulk("subscribe") + bulk(p.channel) + ":1\r\n"
	case pushUnsubscribe:
		return "*3\r\n" + bulk("unsubscribe") + bulk(p.channel) + ":0\r\n"
	case pushPong:
		return "*2\r\n" + bulk("pong") + bulk(p.text)
	}
	panic("no such kind")
}

// readPush takes the first reply of a stream as a subscriber does.
func readPush(stream []byte) (push, bool) {
	g := &guard{Conn: readOnly{Reader: bytes.NewReader(stream)}, pushes: true}
	reply, err := redis.NewConn(g, 0, 0).Receive()
	if err != nil {
		return push{}, false
	}
	return parsePush(reply)
}

// Whatever a server sends, a subscriber takes it for a push only if it is one: written again, it
// reads the same.
func FuzzPush(f *testing.F) {
	for _, p := range []push{
		{kind: pushMessage, channel: "c", text: "\r\n"},
		{kind: pushSubscribe, channel: "c"},
		{kind: pushUnsubscribe, channel: "c"},
		{kind: pushPong, text: "t"},
	} {
		f.Add([]byte(p.wire()))
	}
	f.Add([]byte("*3\r\n$7\r\nmessage\r\n$-1\r\n$1\r\nx\r\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		p, ok := readPush(stream)
		if !ok {
			return
		}
		again, ok := readPush([]byte(p.wire()))
		if !ok || again != p {
			t.Fatalf("%+v was read again as %+v, %v", p, again, ok)
		}
	})
}
