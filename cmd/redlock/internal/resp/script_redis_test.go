package resp_test

import (
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// What is wanted is what a Redis does, where the door does not refuse it.
func TestARedisDoesTheSameWithTheScripts(t *testing.T) {
	server := redistest.StartOne(t)
	conn, err := redis.Dial("tcp", server.Addr())
	require.NoError(t, err)
	defer conn.Close()
	c := &client{t: t, conn: conn}
	onScripts(func(name, script, state, want string) {
		c.do("FLUSHALL")
		if state != "" {
			require.Equal(t, "OK", c.do("SET", "n", state, "PX", "10000"))
		}
		if got := evaluate(c, script); !strings.HasPrefix(want, "ERR") {
			assert.Equal(t, want, got, "%s, key %q", name, state)
		}
	})
}
