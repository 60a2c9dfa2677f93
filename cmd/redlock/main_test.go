package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// roleVariable makes the test binary play a part other than that of the tests: redlock itself, or a command that it runs.
const roleVariable = "REDLOCK_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "redlock":
		os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
	default:
		os.Exit(play(os.Getenv(roleVariable), os.Args[1:]))
	}
}

// patience bounds every wait for a process; none is near it unless something is wrong.
const patience = 30 * time.Second

// waitFor waits until a condition holds.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func urlsOf[T interface{ URL() string }](nodes []T) (urls []string) {
	for _, n := range nodes {
		urls = append(urls, n.URL())
	}
	return urls
}

// meet makes masters vote that were just started, as those of a cluster do that has been used
// before.
func meet(t *testing.T, urls ...string) {
	t.Helper()
	l, err := redlock.New(urls, redlock.WithTTL(10*time.Millisecond), redlock.WithMaxTTL(10*time.Millisecond))
	require.NoError(t, err)
	defer l.Close()
	waitFor(t, "the votes of all masters", func() bool {
		for _, n := range l.Stats().Nodes {
			if n.State != pool.Up || n.Barred != nil {
				return false
			}
		}
		return true
	})
}
