package fake

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

func TestSubscribersGetMessages(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		listener, speaker := dial(t, n), dial(t, n)
		assert.Equal(t, `["subscribe" "a" 1]`, do(listener, "SUBSCRIBE", "a", "b"))
		assert.Equal(t, `["subscribe" "b" 2]`, show(listener.Receive()))
		assert.Equal(t, "1", do(speaker, "PUBLISH", "b", "hello"))
		assert.Equal(t, "1", do(speaker, "EVAL", "return redis.call('publish', 'a', 'from a script')", "0"))
		assert.Equal(t, `["message" "b" "hello"]`, show(listener.Receive()))
		assert.Equal(t, `["message" "a" "from a script"]`, show(listener.Receive()))
		assert.Contains(t, do(listener, "GET", "k"), "-ERR Can't execute 'get': only")
		assert.Equal(t, `["pong" ""]`, do(listener, "PING"))
		assert.Equal(t, `["unsubscribe" "a" 1]`, do(listener, "UNSUBSCRIBE", "a"))
		assert.Equal(t, "0", do(speaker, "PUBLISH", "a", "nobody"))
		assert.Equal(t, `["unsubscribe" "b" 0]`, do(listener, "UNSUBSCRIBE"))
		assert.Equal(t, "<nil>", do(listener, "GET", "k"))
		do(listener, "SUBSCRIBE", "c")
		listener.Close()
		synctest.Wait()
		assert.Equal(t, "0", do(speaker, "PUBLISH", "c", "gone"))
	})
}

func TestSubscribersOfPatternsGetMessages(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		monitor, listener, speaker := dial(t, n), dial(t, n), dial(t, n)
		assert.Equal(t, `["psubscribe" "a*" 1]`, do(monitor, "PSUBSCRIBE", "a*"))
		assert.Contains(t, do(monitor, "PSUBSCRIBE", "a?b"), "does not implement")
		assert.Contains(t, do(monitor, "GET", "k"), "-ERR Can't execute 'get': only")
		assert.Equal(t, "1", do(speaker, "PUBLISH", "ab", "hello"))
		assert.Equal(t, "0", do(speaker, "PUBLISH", "b", "nobody"))
		assert.Equal(t, `["pmessage" "a*" "ab" "hello"]`, show(monitor.Receive()))
		do(listener, "SUBSCRIBE", "ab")
		assert.Equal(t, "2", do(speaker, "PUBLISH", "ab", "both"))
		assert.Equal(t, `["ab" 1 "a" 0]`, do(speaker, "PUBSUB", "NUMSUB", "ab", "a"))
		monitor.Close()
		synctest.Wait()
		assert.Equal(t, "1", do(speaker, "PUBLISH", "ab", "one"))
	})
}
