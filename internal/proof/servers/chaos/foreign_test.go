//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// voterKey says on each master that its memory counts: the value is the number of the master. It
// goes with the memory, and comes back when everything that was forgotten has expired.
const voterKey = "chaos:voter"

const foreignWorkers = 3

// foreign is a client of the algorithm as it is published: SET NX PX on all masters, and DEL if the
// value is still the same. It holds few connections, each for one call at a time.
type foreign struct {
	*client
	nodes []*foreignNode
}

type foreignNode struct {
	address, voter string
	conn           redis.Conn // nil while there is none
	failed         time.Time  // the last time
}

func runForeign(ctx context.Context, b *brief, j *journal) error {
	var workers sync.WaitGroup
	for i := range foreignWorkers {
		f := &foreign{client: &client{brief: b, journal: j}}
		for n, address := range b.Nodes {
			f.nodes = append(f.nodes, &foreignNode{address: strings.TrimPrefix(address, "redis://"), voter: fmt.Sprint(n)})
		}
		rng := rand.New(rand.NewPCG(b.Seed, uint64(i)))
		workers.Go(func() {
			for ctx.Err() == nil {
				f.once(ctx, rng, mutexes[rng.IntN(2)])
				pause(ctx, upTo(rng, 20*time.Millisecond))
			}
		})
	}
	workers.Wait()
	return nil
}

// once tries to lock, holds and releases.
func (f *foreign) once(ctx context.Context, rng *rand.Rand, name string) {
	h := event{
		Type: gotEvent, ID: f.journal.ids.Add(1), Kind: "foreign", Names: []string{name}, Call: now(),
		Value: fmt.Sprintf("foreign-%d-%d", f.ID, rng.Uint64()),
	}
	h.Begin = h.Call
	h.Until = h.Call.Add(ttl - drift().Of(ttl))
	votes := f.each(func(n *foreignNode) bool { return n.set(name, h.Value) })
	h.At = now()
	if votes > len(f.nodes)/2 && h.At < h.Until {
		f.journal.write(h)
		pause(ctx, upTo(rng, shortHold))
		f.journal.write(event{Type: endEvent, ID: h.ID, At: min(now(), h.Until)})
	}
	f.each(func(n *foreignNode) bool { return n.unset(name, h.Value) })
}

// each asks all nodes and returns how many said yes.
func (f *foreign) each(ask func(n *foreignNode) bool) (yes int) {
	answers := make([]bool, len(f.nodes))
	var all sync.WaitGroup
	for i, n := range f.nodes {
		all.Go(func() { answers[i] = ask(n) })
	}
	all.Wait()
	for _, answer := range answers {
		if answer {
			yes++
		}
	}
	return yes
}

// set asks for the lock, and afterwards whether the vote counts.
func (n *foreignNode) set(name, value string) bool {
	replies := n.do([]any{"SET", name, value, "NX", "PX", ttl.Milliseconds()}, []any{"GET", voterKey})
	if len(replies) != 2 {
		return false
	}
	granted, err := redis.String(replies[0], nil)
	voter, missing := redis.String(replies[1], nil)
	return err == nil && missing == nil && granted == "OK" && voter == n.voter
}

func (n *foreignNode) unset(name, value string) bool {
	const script = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`
	return len(n.do([]any{"EVAL", script, 1, name, value})) == 1
}

// do sends commands together. It returns nothing if one of them failed without an answer.
func (n *foreignNode) do(commands ...[]any) (replies []any) {
	if n.conn == nil && time.Since(n.failed) > 100*time.Millisecond {
		conn, err := redis.Dial("tcp", n.address, redis.DialConnectTimeout(nodeTimeout), redis.DialReadTimeout(nodeTimeout),
			redis.DialWriteTimeout(nodeTimeout))
		if err != nil {
			n.failed = time.Now()
			return nil
		}
		n.conn = conn
	}
	if n.conn == nil {
		return nil
	}
	replies, err := n.exchange(commands)
	if err != nil {
		n.conn.Close()
		n.conn, n.failed = nil, time.Now()
		return nil
	}
	return replies
}

func (n *foreignNode) exchange(commands [][]any) (replies []any, err error) {
	for _, command := range commands {
		if err := n.conn.Send(command[0].(string), command[1:]...); err != nil {
			return nil, err
		}
	}
	if err := n.conn.Flush(); err != nil {
		return nil, err
	}
	for range commands {
		reply, err := n.conn.Receive()
		var refusal redis.Error
		if errors.As(err, &refusal) {
			reply = refusal
		} else if err != nil {
			return nil, err
		}
		replies = append(replies, reply)
	}
	return replies, nil
}
