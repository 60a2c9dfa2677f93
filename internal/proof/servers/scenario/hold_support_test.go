package scenario_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// soakVariable makes tests run at the size that the project promises, not at the everyday size.
const soakVariable = "REDQUORUM_SOAK"

// sizeOf returns how often to do something, and logs it.
func sizeOf(t *testing.T, small, full int) int {
	t.Helper()
	if os.Getenv(soakVariable) == "1" {
		t.Logf("full size: %d", full)
		return full
	}
	t.Logf("small size: %d; %s=1 makes it %d", small, soakVariable, full)
	return small
}

// startAged starts five masters and waits until each of them reports an uptime above age, however
// it rounds to whole seconds.
func startAged(t *testing.T, age time.Duration) *cluster.Cluster {
	t.Helper()
	c := cluster.Start(t, 5)
	seconds := int(age/time.Second) + 1 // of which up to one is not over
	cluster.Eventually(t, age+10*time.Second, func() (young string) {
		for _, m := range c.Masters {
			if up := uptime(t, m); up < seconds {
				young += fmt.Sprintf("%s is up for %d s; ", m.Addr(), up)
			}
		}
		if young != "" {
			time.Sleep(50 * time.Millisecond)
		}
		return young
	})
	return c
}

// uptime returns the uptime that a server reports, in whole seconds.
func uptime(t *testing.T, m cluster.Master) int {
	t.Helper()
	reply, err := m.Do("INFO", "server")
	require.NoError(t, err)
	info, _ := reply.([]byte)
	_, rest, _ := strings.Cut(string(info), "uptime_in_seconds:")
	digits, _, _ := strings.Cut(rest, "\r\n")
	seconds, err := strconv.Atoi(digits)
	require.NoError(t, err)
	return seconds
}

// leave ends the connections of proxies, and refuses new ones.
func leave(proxies ...*redistest.Proxy) {
	for _, p := range proxies {
		p.Refuse(true)
		p.Reset()
	}
}

// awaitUp waits until a Locker is connected to exactly these nodes.
func awaitUp(t *testing.T, l *redlock.Locker, indexes ...int) {
	t.Helper()
	cluster.Eventually(t, 10*time.Second, func() (wrong string) {
		want := make([]bool, len(l.Stats().Nodes))
		for _, i := range indexes {
			want[i] = true
		}
		for i, node := range l.Stats().Nodes {
			if (node.State == pool.Up) != want[i] || (!want[i] && node.State != pool.Down) {
				wrong += fmt.Sprintf("%s is %v: %v\n", node.Endpoint, node.State, node.Err)
			}
		}
		return wrong
	})
}

// nodesThatSay returns the endpoints of those nodes in an error whose own text contains text.
func nodesThatSay(t *testing.T, err error, text string) (endpoints []string) {
	t.Helper()
	var failure *redlock.QuorumError
	require.ErrorAs(t, err, &failure)
	for _, err := range failure.Nodes.WrappedErrors() {
		var node *redlock.NodeError
		if errors.As(err, &node) && strings.Contains(node.Err.Error(), text) {
			endpoints = append(endpoints, node.Endpoint)
		}
	}
	return endpoints
}

// skipIfExpired skips the rest of a test that needs the lock to be held while others ask for it, if
// the machine was so slow that its validity has ended.
func skipIfExpired(t *testing.T, lock *redlock.Lock) {
	t.Helper()
	if err := lock.Err(); err != nil {
		require.ErrorContains(t, err, "validity has ended")
		t.Skip("the machine was too slow: the validity has ended")
	}
}

// requireLostBecause asserts that a lock is lost, and why.
func requireLostBecause(t *testing.T, lock *redlock.Lock, why string) {
	t.Helper()
	require.ErrorIs(t, lock.Err(), redlock.ErrLost)
	assert.ErrorContains(t, lock.Err(), why)
	assert.LessOrEqual(t, lock.Remaining(), time.Duration(0))
	select {
	case <-lock.Done():
	default:
		t.Error("Done is open")
	}
}
