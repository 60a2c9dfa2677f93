package admin

import (
	"context"
	"strconv"
	"strings"
	"sync"
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

// Vitals asks each master for its signs of life, in the order of the Stats; later these may have
// more nodes.
func (o *Operator) Vitals(ctx context.Context) []Vitals {
	masters := o.masters()
	all := make([]Vitals, len(masters))
	var asked sync.WaitGroup
	for i, m := range masters {
		asked.Go(func() { all[i] = vitalsOf(ctx, m) })
	}
	asked.Wait()
	return all
}

// masters returns those that are asked, in the order of the Stats.
func (o *Operator) masters() (all []ask.Master) {
	for _, node := range o.door.Nodes() {
		all = append(all, ask.Master{Node: node, Clock: o.door.Clock, Patience: max(o.door.Timeout, leastPatience)})
	}
	return all
}

// leastPatience bounds an answer that is no vote, where the node timeout is shorter.
const leastPatience = time.Second

func vitalsOf(ctx context.Context, m ask.Master) Vitals {
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
	info := map[string]string{}
	for _, section := range []ask.Reply{stats, clients, keyspace, memory} {
		reply, err := section.Wait(ctx)
		if err != nil && ask.RefusalOf(err) == nil {
			v.Err = err
			return v
		}
		ask.Fields(reply, info)
	}
	v.Commands, v.Clients = number(info, "instantaneous_ops_per_sec"), number(info, "connected_clients")
	v.Memory, v.MaxMemory = number(info, "used_memory"), number(info, "maxmemory")
	if v.Clients >= 0 { // INFO is allowed, and leaves empty databases out
		v.Keys = keysIn(info)
	}
	if reply, err := at.Wait(ctx); err == nil {
		if theirs, ok := ask.TimeOf(reply); ok {
			v.Clock, v.HasClock = theirs.Sub(sent)-v.RoundTrip/2, true
		}
	}
	return v
}

// number returns the number in a field of INFO; -1 if there is none.
func number(info map[string]string, field string) int64 {
	if n, err := strconv.ParseInt(info[field], 10, 64); err == nil {
		return n
	}
	return -1
}

// keysIn adds the keys of all databases: db0:keys=3,expires=1,avg_ttl=0.
func keysIn(info map[string]string) (sum int64) {
	for _, fields := range info {
		count, _, _ := strings.Cut(strings.TrimPrefix(fields, "keys="), ",")
		if n, err := strconv.ParseInt(count, 10, 64); err == nil && strings.HasPrefix(fields, "keys=") {
			sum += n
		}
	}
	return sum
}
