package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/redlock"
)

func TestLogAndInspectTellTheHistoryOfAName(t *testing.T) {
	t.Parallel()
	f := start(t, redlock.WithOwner("me\x1b"), redlock.WithHistory(), redlock.WithKeyPrefix("p:"))
	f.flags = append(f.flags, "--key-prefix", "p:")
	status, stdout, stderr := f.line("log", "job")
	assert.Zero(t, status, stderr)
	assert.Equal(t, "Nothing is noted of this name.\n", stdout)
	_, i, text := f.inspect("job")
	assert.Empty(t, i.History)
	assert.NotContains(t, text, "WHAT")

	for range 7 {
		lock, err := f.locker.TryLock(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))
	}
	var told survey.Events
	clitest.WaitFor(t, "the notes", func() bool {
		_, stdout, stderr = f.line("log", "job", "--json")
		require.NoError(t, json.Unmarshal([]byte(stdout), &told), stderr)
		return len(told.Events) == 7
	})
	assert.True(t, told.Complete)
	for _, e := range told.Events {
		assert.Equal(t, []any{admin.KindRan, "p:job", "me\x1b"}, []any{e.Kind, e.Key, e.Holder})
		assert.NotZero(t, e.BeganMillis)
	}
	_, stdout, _ = f.line("log", "job", "--limit", "2", "--since", "1h")
	assert.Regexp(t, `^TIME +WHAT +HOLDER +BY +WHY\n(20[^ ]+Z +ran +me\\x1b +me\\x1b +after [0-9a-z]+\n){2}$`, stdout)
	_, i, text = f.inspect("job")
	assert.Equal(t, told.Events[2:], i.History, "the newest five")
	assert.Regexp(t, `(?m)^"job" is free\.\n(.+\n)*\nTIME +WHAT +HOLDER +BY +WHY\n(20.*\n){5}$`, text)
	time.Sleep(2 * time.Millisecond)
	_, stdout, _ = f.line("log", "job", "--since", "1ms")
	assert.Equal(t, "Nothing is noted of this name.\n", stdout)

	for _, args := range [][]string{{"log", "job", "another"}, {"log", "redquorum:log:job"}, {"log", "job", "--since", "-1s"}} {
		status, _, stderr = f.line(args...)
		assert.Equal(t, cli.ExitUsage, status, stderr)
	}
	f.kill(0, 1)
	status, stdout, _ = f.line("log", "job")
	assert.Equal(t, cli.ExitNoQuorum, status)
	assert.Contains(t, stdout, "ran", "what the others have")
}
