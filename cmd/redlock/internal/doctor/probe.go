package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

const (
	answerBound  = 2 * time.Second // for one answer
	pings        = 5               // enough for a median
	timeSamples  = 3               // the one with the shortest round trip counts
	trialKeyLife = 5 * time.Second // of the key that is written, should it not be deleted
)

// facts are what a master told. What it did not tell is missing from the maps.
type facts struct {
	endpoint  string
	err       error // why there is no connection; nothing else is known then
	runID     string
	product   string
	version   string
	durable   bool
	barred    error         // why its vote does not count
	barredFor time.Duration // as far as is known
	info      map[string]string
	config    map[string]string
	denied    map[string]error // by command: why it was refused
	derived   error            // why a script could not touch a key that it derives; nil where it could
	roundTrip time.Duration    // the median
	slowest   time.Duration
	offset    time.Duration // its clock less ours
	offsetOK  bool
	doubt     time.Duration // of the offset

	marker     string // what the memory key holds
	unreadable error  // why that could not be read
	unwritable error  // why it could not be written
	missing    bool   // some master is not there
	allNew     bool   // all are there, and new
}

// takeVote takes what a Locker knows of a node.
func (f *facts) takeVote(stats redlock.NodeStats) {
	f.barred, f.barredFor = stats.Barred, stats.QuarantinedFor
}

// probe asks one master.
type probe struct {
	node   *pipeline.Node
	clock  clock.Clock
	prefix string
}

// connect waits until the node is connected, or has failed to.
func (p *probe) connect(ctx context.Context, f *facts) bool {
	f.endpoint = p.node.Endpoint()
	changed := make(chan struct{}, 1)
	stop := p.node.Observe(func() {
		select {
		case changed <- struct{}{}:
		default: // a look is due already
		}
	})
	defer stop()
	for {
		stats := p.node.Stats()
		switch stats.State {
		case pool.Up:
			id, _ := p.node.Identity()
			f.runID, f.product, f.version, f.durable = id.RunID, id.Product, id.Version, id.Durable
			return true
		case pool.Down, pool.Closed:
			f.err = stats.Err
			return false
		case pool.Connecting:
		}
		select {
		case <-changed:
		case <-ctx.Done():
			f.err = fmt.Errorf("no connection within %v", bound)
			return false
		}
	}
}

// ask asks everything that there is to know. A master that stops to answer meanwhile has that as its error.
func (p *probe) ask(ctx context.Context, f *facts) {
	f.info, f.config, f.denied = map[string]string{}, map[string]string{}, map[string]error{}
	for _, question := range []func(context.Context, *facts) error{
		p.askMemory, p.askPings, p.askTime, p.askInfo, p.askConfig, p.tryDerivedKey, p.tryCommands,
	} {
		if err := question(ctx, f); err != nil {
			f.err = err
			return
		}
	}
}

func (p *probe) askPings(ctx context.Context, f *facts) error {
	var took []time.Duration
	for range pings {
		begin := p.clock.Now()
		if _, err := p.call(ctx, "PING"); err != nil {
			if f.refused("PING", err) {
				return nil
			}
			return err
		}
		took = append(took, p.clock.Now().Sub(begin))
	}
	slices.Sort(took)
	f.roundTrip, f.slowest = took[len(took)/2], took[len(took)-1]
	return nil
}

// askTime compares the clocks. The server read its own at some moment of the round trip, we take the middle of it: that is wrong by
// half of it at most.
func (p *probe) askTime(ctx context.Context, f *facts) error {
	for range timeSamples {
		begin := p.clock.Now()
		reply, err := p.call(ctx, "TIME")
		took, wall := p.clock.Now().Sub(begin), p.clock.Wall()
		if err != nil {
			if f.refused("TIME", err) {
				return nil
			}
			return err
		}
		server, ok := timeOf(reply)
		if ok && (!f.offsetOK || took/2 < f.doubt) {
			f.offset, f.doubt, f.offsetOK = server.Sub(wall.Add(-took/2)), took/2, true
		}
	}
	return nil
}

// timeOf reads the answer of TIME: seconds and microseconds.
func timeOf(reply any) (time.Time, bool) {
	parts, _ := reply.([]any)
	if len(parts) != 2 {
		return time.Time{}, false
	}
	seconds, err1 := strconv.ParseInt(text(parts[0]), 10, 64)
	micros, err2 := strconv.ParseInt(text(parts[1]), 10, 64)
	return time.Unix(seconds, micros*1000), err1 == nil && err2 == nil
}

func (p *probe) askInfo(ctx context.Context, f *facts) error {
	return p.askAll(ctx, f, []question{
		{"INFO", []any{"server"}}, {"INFO", []any{"replication"}}, {"INFO", []any{"memory"}}, {"INFO", []any{"persistence"}},
	}, func(reply any) {
		for line := range strings.Lines(text(reply)) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				f.info[name] = value
			}
		}
	})
}

func (p *probe) askConfig(ctx context.Context, f *facts) error {
	return p.askAll(ctx, f, []question{{"CONFIG", []any{"GET", "*append*"}}, {"CONFIG", []any{"GET", "save"}}}, func(reply any) {
		pairs, _ := reply.([]any)
		for i := 0; i+1 < len(pairs); i += 2 {
			f.config[text(pairs[i])] = text(pairs[i+1])
		}
	})
}

// derivedScript looks at a key as the wait list of a lock is named, of which the server was told
// nothing.
var derivedScript = pipeline.NewLateScript("return redis.call('GET', 'redquorum:waits:' .. KEYS[1])")

// tryDerivedKey finds out whether a script may touch keys that are not among its KEYS.
func (p *probe) tryDerivedKey(ctx context.Context, f *facts) error {
	w := make(waiter, 1)
	p.node.Do(&pipeline.Call{Request: &pipeline.Request{
		Script: derivedScript, Args: derivedScript.Args(nil, []any{p.trialKey()}), Deadline: p.clock.Now().Add(answerBound), Sink: w,
	}})
	_, err := w.wait(ctx)
	if call, ok := errors.AsType[*pipeline.CallError](err); ok && call.Fate == pipeline.Refused {
		f.derived = call.Err
		return nil
	}
	return err
}

// trialKey returns the name of a key that nobody has.
func (p *probe) trialKey() string { return p.prefix + "redquorum:doctor:" + rand.Text() }

const trialScript = "return 1"

// tryCommands does what locks do, on a key of its own.
func (p *probe) tryCommands(ctx context.Context, f *facts) error {
	key := p.trialKey()
	channel := "redquorum:wake:" + rand.Text() // as those of waiters: an ACL may allow no others
	life := trialKeyLife.Milliseconds()
	return p.askAll(ctx, f, []question{
		{"SET", []any{key, "1", "NX", "PX", life}},
		{"GET", []any{key}},
		{"EVAL", []any{"return redis.call('PTTL', KEYS[1])", 1, key}},
		{"EVAL", []any{"return redis.call('PEXPIRE', KEYS[1], ARGV[1])", 1, key, life}},
		{"EVAL", []any{trialScript, 0}}, // one of the two makes the next one known
		{"SCRIPT", []any{"LOAD", trialScript}},
		{"EVALSHA", []any{pipeline.NewScript(trialScript).Digest(), 0}},
		{"DEL", []any{key}},
		{"PUBLISH", []any{channel, ""}},
		{"SUBSCRIBE", []any{channel}}, // the last: from here on the connection takes nothing else
	}, func(any) {})
}

// question is a command.
type question struct {
	name string
	args []any
}

// askAll asks all of them at once, and takes the answers in their order. What is refused is noted.
func (p *probe) askAll(ctx context.Context, f *facts, questions []question, take func(reply any)) error {
	var waiting []waiter
	for _, q := range questions {
		waiting = append(waiting, p.send(q.name, q.args...))
	}
	for i, w := range waiting {
		reply, err := w.wait(ctx)
		switch {
		case err == nil:
			take(reply)
		case !f.refused(questions[i].name, err):
			return err
		}
	}
	return nil
}

// refused notes a command that the server refused, and reports whether it did.
func (f *facts) refused(command string, err error) bool {
	var call *pipeline.CallError
	if !errors.As(err, &call) || call.Fate != pipeline.Refused {
		return false
	}
	if command == "CONFIG" {
		command = "CONFIG GET"
	}
	if f.denied[command] == nil {
		f.denied[command] = call.Err
	}
	return true
}

func text(reply any) string {
	bulk, _ := reply.([]byte)
	return string(bulk)
}

// call makes a call and waits for its answer.
func (p *probe) call(ctx context.Context, name string, args ...any) (any, error) {
	return p.send(name, args...).wait(ctx)
}

func (p *probe) send(name string, args ...any) waiter {
	w := make(waiter, 1)
	p.node.Do(&pipeline.Call{Request: &pipeline.Request{Name: name, Args: args, Deadline: p.clock.Now().Add(answerBound), Sink: w}})
	return w
}

// waiter takes one answer; it has room for it.
type waiter chan answer

type answer struct {
	reply any
	err   error
}

func (w waiter) Complete(_ *pipeline.Call, reply any, err error) { w <- answer{reply, err} }

func (w waiter) wait(ctx context.Context) (any, error) {
	select {
	case a := <-w:
		return a.reply, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("no answer within %v", bound)
	}
}
