package survey

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/internal/ask"
)

// Vitals are the signs of life of a master.
type Vitals struct {
	RoundTrip time.Duration // of a PING
	Commands  int64         // per second, of all clients together; -1: the user may not know
	Keys      int64         // of all databases; -1 likewise
	Clients   int64         // connections; -1 likewise
	Err       error         // why there are none
}

// Examine asks a master for its signs of life.
func Examine(ctx context.Context, m ask.Master) Vitals {
	v := Vitals{Commands: -1, Keys: -1, Clients: -1}
	begin := m.Clock.Now()
	if _, err := m.Send("PING").Wait(ctx); err != nil && ask.RefusalOf(err) == nil {
		v.Err = err
		return v
	}
	v.RoundTrip = m.Clock.Now().Sub(begin)
	// Before Redis 7, INFO takes one section.
	stats, clients, keyspace := m.Send("INFO", "stats"), m.Send("INFO", "clients"), m.Send("INFO", "keyspace")
	for _, section := range []struct {
		reply ask.Reply
		read  func(text string)
	}{
		{stats, func(text string) { v.Commands = number(text, "instantaneous_ops_per_sec:") }},
		{clients, func(text string) { v.Clients = number(text, "connected_clients:") }},
		{keyspace, func(text string) { v.Keys = keysIn(text) }},
	} {
		reply, err := section.reply.Wait(ctx)
		switch {
		case err == nil:
			section.read(ask.Text(reply))
		case ask.RefusalOf(err) == nil:
			v.Err = err
			return v
		}
	}
	return v
}

// number returns the number behind a field of INFO; -1 if there is none.
func number(text, field string) int64 {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field); ok {
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				return n
			}
		}
	}
	return -1
}

// keysIn adds the keys of all databases: db0:keys=3,expires=1,avg_ttl=0.
func keysIn(text string) (sum int64) {
	for line := range strings.Lines(text) {
		_, fields, _ := strings.Cut(strings.TrimSpace(line), ":keys=")
		count, _, _ := strings.Cut(fields, ",")
		if n, err := strconv.ParseInt(count, 10, 64); err == nil {
			sum += n
		}
	}
	return sum
}
