package pipeline

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// patience bounds what a test waits for a real server. No test asserts how long anything takes.
const patience = 20 * time.Second

// await takes events until the last of them is the wanted one, and returns all of them.
func (e *recorder) await(t *testing.T, want string) (events []string, errs []error) {
	t.Helper()
	timeout := time.After(patience)
	for {
		moreEvents, moreErrs := e.take()
		events, errs = append(events, moreEvents...), append(errs, moreErrs...)
		if len(events) > 0 && events[len(events)-1] == want {
			return events, errs
		}
		select {
		case <-e.told:
		case <-timeout:
			require.FailNow(t, "not told in time", "%s; but %q, %v", want, events, errs)
		}
	}
}

func publishOn(t *testing.T, server *redistest.Server, message string) int64 {
	t.Helper()
	receivers, err := redis.Int64(server.Do("PUBLISH", testChannel, message))
	require.NoError(t, err)
	return receivers
}

// subscribeTo returns the recorder of a subscription to the server at an endpoint, once in force.
func subscribeTo(t *testing.T, endpoint string, opts ...Option) *recorder {
	t.Helper()
	node, err := NewNode(endpoint, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, node.Close()) })
	e := newRecorder()
	node.Subscribe(testChannel, e)
	e.await(t, "subscribed")
	return e
}

func TestRealServerCountsTheSubscriberOnceItListens(t *testing.T) {
	server := redistest.StartOne(t, redistest.WithPassword("hunter2"))
	e := subscribeTo(t, server.URL())
	arrives := func(message string) {
		require.EqualValues(t, 1, publishOn(t, server, message))
		events, _ := e.await(t, "<"+message)
		assert.Equal(t, "<"+message, events[len(events)-1])
	}
	arrives("one")
	arrives("two")
	_, err := server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	require.NoError(t, err)
	e.await(t, "subscribed")
	arrives("three")
	require.NoError(t, server.Restart())
	e.await(t, "subscribed")
	arrives("four")
}

func TestRealServerAnswersThePingOfASubscriberAndRefusesItByItsACL(t *testing.T) {
	server := redistest.StartOne(t)
	rule := []any{"SETUSER", "locks", "on", ">hunter2", "allkeys", "+@all", "resetchannels"}
	_, err := server.Do("ACL", append(rule, "&"+testChannel)...)
	require.NoError(t, err)
	e := subscribeTo(t, "redis://locks:hunter2@"+server.Addr(), WithIdlePing(time.Millisecond), WithDialTimeout(patience))
	require.Eventually(t, func() bool {
		list, err := redis.String(server.Do("CLIENT", "LIST", "TYPE", "pubsub"))
		require.NoError(t, err)
		return strings.Count(list, "\n") == 1 && strings.Contains(list, " cmd=ping ")
	}, patience, time.Millisecond)
	require.EqualValues(t, 1, publishOn(t, server, "still"))
	events, errs := e.await(t, "<still")
	assert.Equal(t, []string{"<still"}, events)
	assert.Empty(t, errs, "the answers were understood")

	_, err = server.Do("ACL", rule...) // Redis closes subscriptions that are now forbidden
	require.NoError(t, err)
	for refused := false; !refused; {
		_, errs := e.await(t, "unsubscribed")
		last := errs[len(errs)-1].Error()
		assert.NotContains(t, last, "hunter2")
		refused = strings.Contains(last, "NOPERM")
	}
	assert.Zero(t, publishOn(t, server, "lost"))
}
