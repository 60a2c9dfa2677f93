package resp_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/lease"
	"github.com/redquorum/redquorum/cmd/redlock/internal/resp"
	"github.com/redquorum/redquorum/internal/proof/virtual"
)

func TestMain(m *testing.M) { virtual.OneProcessor(m) }

// fleet is three masters and two servers in virtual time.
type fleet struct {
	*virtual.Cluster

	servers []*resp.Server
}

func inFleet(t *testing.T, test func(t *testing.T, f *fleet), with ...func(*resp.Config, *lease.Leases)) {
	t.Helper()
	virtual.InBubble(t, 3, func(t *testing.T, c *virtual.Cluster) {
		f := &fleet{Cluster: c}
		for range 2 {
			config := resp.Config{Leases: lease.New(c.Locker()), Clock: c.Clock}
			for _, change := range with {
				change(&config, config.Leases)
			}
			f.servers = append(f.servers, resp.New(config))
		}
		test(t, f)
	})
}

// client is a client of a server.
type client struct {
	t    *testing.T
	conn redis.Conn
	raw  net.Conn
}

func (f *fleet) client(server int) *client {
	here, there := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		f.servers[server].ServeConn(context.Background(), there)
	}()
	f.T.Cleanup(func() {
		_ = here.Close()
		<-served
	})
	return &client{f.T, redis.NewConn(here, 0, 0), here}
}

// do returns the reply to a command as text: nil, OK, 1, [1 a nil], or the error.
func (c *client) do(command string, args ...string) string {
	c.t.Helper()
	list := make([]any, len(args))
	for i, arg := range args {
		list[i] = arg
	}
	reply, err := c.conn.Do(command, list...)
	if err != nil {
		return err.Error()
	}
	return text(reply)
}

func text(reply any) string {
	switch reply := reply.(type) {
	case nil:
		return "nil"
	case []byte:
		return string(reply)
	case []any:
		var all []string
		for _, one := range reply {
			all = append(all, text(one))
		}
		return "[" + strings.Join(all, " ") + "]"
	case int64:
		return strconv.FormatInt(reply, 10)
	case string:
		return reply
	case error:
		return reply.Error()
	}
	return "?"
}

// play runs lines, each a client, a command and the reply that it must get: "A GET n = T". A reply
// that ends with an ellipsis begins like that. A line without a client sleeps.
func (f *fleet) play(lines string) {
	f.T.Helper()
	clients := map[string]*client{}
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		said, want, replied := strings.Cut(line, " = ")
		words := strings.Fields(said)
		if !replied {
			d, err := time.ParseDuration(words[1])
			require.NoError(f.T, err, line)
			time.Sleep(d)
			continue
		}
		c := clients[words[0]]
		if c == nil {
			c = f.client(int(words[0][0]-'A') % 2) // A and C, B and D
			clients[words[0]] = c
		}
		for i, word := range words {
			words[i] = strings.ReplaceAll(word, "_", " ") // within a script
		}
		got := c.do(words[1], words[2:]...)
		if begins, ok := strings.CutSuffix(want, "…"); ok {
			assert.True(f.T, strings.HasPrefix(got, begins), "%s: %s", line, got)
			continue
		}
		assert.Equal(f.T, want, got, line)
	}
}
