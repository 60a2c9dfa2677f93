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
	Memory    int64         // bytes that it uses; -1 likewise
	MaxMemory int64         // bytes that it may use; 0: no limit; -1 likewise
	Err       error         // why there are none

	// Clock is how far its clock is ahead of ours, give or take the round trip. It is known if
	// HasClock.
	Clock    time.Duration
	HasClock bool
}

// Examine asks a master for its signs of life.
func Examine(ctx context.Context, m ask.Master) Vitals {
	v := Vitals{Commands: -1, Keys: -1, Clients: -1, Memory: -1, MaxMemory: -1}
	begin := m.Clock.Now()
	if _, err := m.Send("PING").Wait(ctx); err != nil && ask.RefusalOf(err) == nil {
		v.Err = err
		return v
	}
	v.RoundTrip = m.Clock.Now().Sub(begin)
	// Before Redis 7, INFO takes one section.
	stats, clients, keyspace := m.Send("INFO", "stats"), m.Send("INFO", "clients"), m.Send("INFO", "keyspace")
	memory, at := m.Send("INFO", "memory"), m.Send("TIME")
	sent := m.Clock.Wall()
	for _, section := range []struct {
		reply ask.Reply
		read  func(text string)
	}{
		{stats, func(text string) { v.Commands = number(text, "instantaneous_ops_per_sec:") }},
		{clients, func(text string) { v.Clients = number(text, "connected_clients:") }},
		{keyspace, func(text string) { v.Keys = keysIn(text) }},
		{memory, func(text string) { v.Memory, v.MaxMemory = number(text, "used_memory:"), number(text, "maxmemory:") }},
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
	if reply, err := at.Wait(ctx); err == nil {
		if theirs, ok := timeOf(reply); ok {
			v.Clock, v.HasClock = theirs.Sub(sent)-v.RoundTrip/2, true
		}
	}
	return v
}

// timeOf parses a reply to TIME: seconds, and microseconds.
func timeOf(reply any) (time.Time, bool) {
	parts, _ := reply.([]any)
	if len(parts) != 2 {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseInt(ask.Text(parts[0]), 10, 64)
	micros, err2 := strconv.ParseInt(ask.Text(parts[1]), 10, 64)
	return time.Unix(seconds, micros*1000), err == nil && err2 == nil
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
