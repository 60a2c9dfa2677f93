package driver_test

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redquorum/redquorum/fence"
)

// resource is what the locks of a name protect. It takes writes through a gate.
type resource struct {
	gate    fence.Gate
	written atomic.Int64 // the token of the last write

	shared  fence.RWGate // of those who read, and write, beside the gate
	reading atomic.Int64 // readers that it lets pass now
	writing atomic.Int64 // writers
}

// resource returns that of a name.
func (r *run) resource(name string) *resource {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resources[name] == nil {
		r.resources[name] = &resource{}
	}
	return r.resources[name]
}

// mostWriters bounds how many holders write at once.
const mostWriters = 6

// shows has those who have, or had, a lock of one name write to its resource, all at once.
func shows(a *actor) {
	one := a.old()
	if one == nil {
		return
	}
	name, to := one.hold.Names[0], a.resource(one.hold.Names[0])
	var tokens, readers []int64
	a.mu.Lock()
	for i := len(a.handles) - 1; i >= 0 && len(tokens) < mostWriters; i-- {
		switch h := a.handles[i].hold; {
		case h.Names[0] != name || h.Token == 0:
		case h.Shared:
			readers = append(readers, h.Token)
		default:
			tokens = append(tokens, h.Token)
		}
	}
	a.mu.Unlock()
	var writing sync.WaitGroup
	if len(tokens) > 0 && tokens[0]%2 == 0 { // not drawn: the oldest first, behind which each may pass
		slices.Reverse(tokens)
	}
	for _, token := range tokens {
		writing.Go(func() { a.write(name, to, token) })
	}
	for _, token := range readers {
		writing.Go(func() { a.passes(name, to, token, true) })
	}
	for _, token := range tokens {
		writing.Go(func() { a.passes(name, to, token, false) })
	}
	writing.Wait()
}

// passes shows a token to the gate of readers and writers.
func (r *run) passes(name string, to *resource, token int64, reads bool) {
	mine, pass, admit := &to.writing, to.shared.Write, to.shared.AdmitWrite
	if reads {
		mine, pass, admit = &to.reading, to.shared.Read, to.shared.AdmitRead
	}
	write, read := to.shared.Newest()
	stale := token < write || !reads && token <= read
	if stale {
		r.promise("a gate refuses older tokens", is(admit(token), fence.ErrStale), "%q: %d was admitted behind %d and %d", name, token, write, read)
	}
	err := pass(token, func() error {
		mine.Add(1)
		for range mostWriters {
			runtime.Gosched() // as in write
		}
		writing, reading := to.writing.Load(), to.reading.Load()
		r.promise("nothing else passes while one writes", writing == 0 && reads || writing == 1 && reading == 0, "%q: %d write and %d read at once", name, writing, reading)
		mine.Add(-1)
		return nil
	})
	write, read = to.shared.Newest()
	r.promise("a gate refuses older tokens", err != nil || !stale, "%q: %d passed behind others: %d and %d", name, token, write, read)
	later := token < write || !reads && token <= read
	r.promise("a gate takes the newest token", err == nil || is(err, fence.ErrStale) && later, "%q: %d: %v, and the newest are %d and %d", name, token, err, write, read)
}

// write writes to a resource. Its gate must not let older tokens pass behind newer ones.
func (r *run) write(name string, to *resource, token int64) {
	before := to.gate.Newest()
	if token%2 == 0 { // not drawn
		if to.gate.Admit(token) == nil {
			r.promise("a gate remembers what it admits", to.gate.Newest() >= token && token >= before, "%q: %d was admitted behind %d, the newest is %d", name, token, before, to.gate.Newest())
		}
	}
	err := to.gate.Do(token, func() error {
		last := to.written.Load()
		for range mostWriters {
			runtime.Gosched() // not a sleep: in virtual time none may wait for a mutex meanwhile
		}
		alone := to.written.Load() == last
		r.promise("no other token passes while one writes", alone, "%q: two write at once, one of them with %d", name, token)
		r.promise("a gate refuses older tokens", last <= token, "%q: %d was written behind %d", name, token, last)
		to.written.Store(token)
		return nil
	})
	if err != nil {
		stale := errors.Is(err, fence.ErrStale) && token < to.gate.Newest()
		r.promise("a gate takes the newest token", stale, "%q: %d: %v, the newest is %d", name, token, err, to.gate.Newest())
		return
	}
	r.promise("a gate refuses older tokens", token >= before, "%q: %d passed behind %d", name, token, before)
}
