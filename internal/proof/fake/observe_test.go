package fake

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/clock/clocktest"
)

func TestCommandsAreObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.New()
		n := New(clk, WithCommandLog(2))
		defer n.Close()
		c := dial(t, n)
		var seen []string
		var alive bool
		n.OnCommand(func(command Command) {
			seen = append(seen, strings.Join(command.Args, " "))
			_, _, alive = n.Get("k")
		})
		do(c, "SET", "k", "v")
		assert.True(t, alive, "the hook comes after the execution")
		time.Sleep(time.Second)
		do(c, "get", "k")
		for range 3 {
			do(c, "PING")
		}
		assert.Equal(t, []string{"SET k v", "get k", "PING", "PING", "PING"}, seen)
		assert.Equal(t, []Command{
			{At: clk.Now(), Conn: 1, Args: []string{"PING"}}, {At: clk.Now(), Conn: 1, Args: []string{"PING"}},
		}, n.Commands())
		value, left, ok := n.Get("k")
		assert.Equal(t, []any{"v", NoExpiry, true}, []any{value, left, ok})
	})
}

func TestCommandLogCanBeOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, WithCommandLog(0))
		do(dial(t, n), "PING")
		assert.Empty(t, n.Commands())
	})
}
