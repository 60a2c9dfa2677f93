package pipeline

import (
	"sync"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/fake"
)

const testChannel = "redquorum:wake:test"

// recorder is a Listener that keeps what it receives.
type recorder struct {
	told chan struct{} // signals something new; room for one

	mu     sync.Mutex
	events []string // "subscribed", "unsubscribed", or a message behind a "<"
	errs   []error  // one for each "unsubscribed"
}

func newRecorder() *recorder { return &recorder{told: make(chan struct{}, 1)} }

func (e *recorder) Subscribed() { e.note("subscribed") }

func (e *recorder) Message(message string) { e.note("<" + message) }

func (e *recorder) Unsubscribed(err error) {
	e.mu.Lock()
	e.errs = append(e.errs, err)
	e.mu.Unlock()
	e.note("unsubscribed")
}

func (e *recorder) note(event string) {
	e.mu.Lock()
	e.events = append(e.events, event)
	e.mu.Unlock()
	select {
	case e.told <- struct{}{}:
	default:
	}
}

// take returns the events since the last call.
func (e *recorder) take() (events []string, errs []error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	events, errs = e.events, e.errs
	e.events, e.errs = nil, nil
	return events, errs
}

// events returns the events since the last call, once everything that happens now has happened.
func (h *harness) events(e *recorder) []string {
	synctest.Wait()
	events, _ := e.take()
	return events
}

// failures returns the errors of the events since the last call, which must all be "unsubscribed".
func (h *harness) failures(e *recorder) []error {
	h.t.Helper()
	synctest.Wait()
	events, errs := e.take()
	require.Len(h.t, errs, len(events), "%v", events)
	require.NotEmpty(h.t, errs)
	return errs
}

// subscribe returns a subscription of the node that is in force.
func (h *harness) subscribe() (*Subscription, *recorder) {
	h.t.Helper()
	e := newRecorder()
	s := h.node.Subscribe(testChannel, e)
	require.Equal(h.t, []string{"subscribed"}, h.events(e))
	return s, e
}

// publish returns how many subscribers received the message.
func (h *harness) publish(message string) int64 {
	h.t.Helper()
	r := h.command("PUBLISH", testChannel, message).wait()
	require.NoError(h.t, r.err)
	return r.reply.(int64)
}

// commandsOf returns the commands with that name that the server saw.
func (h *harness) commandsOf(name string) (found []fake.Command) {
	for _, c := range h.server.Commands() {
		if c.Args[0] == name {
			found = append(found, c)
		}
	}
	return found
}

// killSubscriber makes the server close the latest subscriber's connection.
func (h *harness) killSubscriber() {
	h.t.Helper()
	subscribes := h.commandsOf("SUBSCRIBE")
	r := h.command("CLIENT", "KILL", "ID", subscribes[len(subscribes)-1].Conn).wait()
	require.NoError(h.t, r.err)
	require.EqualValues(h.t, 1, r.reply)
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
