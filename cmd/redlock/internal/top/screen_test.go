package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
)

// shown is a Screen on a buffer, with the size and the keys of the test.
type shown struct {
	Screen
	out           bytes.Buffer
	keys          chan byte
	resized       chan os.Signal
	taken         int
	width, height int
}

func newShown() *shown {
	s := &shown{keys: make(chan byte), resized: make(chan os.Signal), width: 80, height: 24}
	s.Screen = Screen{
		Look: terminal.Look{Size: func() (int, int) { return s.width, s.height }}, Out: &s.out, Keys: s.keys, Resized: s.resized,
		Interval: time.Second,
		Take: func(context.Context) Snapshot {
			s.taken++
			return Snapshot{Count: fmt.Sprintf("look %d", s.taken)}
		},
	}
	return s
}

func TestScreenShowsSnapshotsUntilAKeyEndsIt(t *testing.T) {
	for _, key := range []byte{'q', 'Q', interrupt, endOfInput} {
		synctest.Test(t, func(t *testing.T) {
			s := newShown()
			done := make(chan error, 1)
			go func() { done <- s.Run(t.Context()) }()
			s.keys <- 'x'
			time.Sleep(2500 * time.Millisecond)
			s.keys <- key
			require.NoError(t, <-done)
			text := s.out.String()
			assert.Equal(t, 3, s.taken)
			for _, want := range []string{"Asking the masters…", "look 1", "look 2", "look 3"} {
				assert.Contains(t, text, want)
			}
			assert.True(t, strings.HasPrefix(text, terminal.EnterScreen))
			assert.True(t, strings.HasSuffix(text, terminal.LeaveScreen))
			assert.Equal(t, 1, strings.Count(text, terminal.LeaveScreen))
		})
	}
}

func TestScreenIsDrawnForItsNewSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShown()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		s.out.Reset()
		s.width, s.height = 20, 2
		s.resized <- syscall.Signal(0)
		synctest.Wait()
		assert.Equal(t, "\x1b[H"+strings.Repeat(" ", 13)+"q quits\r\nlook 1\x1b[K\x1b[J", s.out.String())
		close(s.keys) // nobody can type any more: it goes on
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		assert.Contains(t, s.out.String(), "look 2")
		cancel()
		require.NoError(t, <-done)
	})
}

// A look that takes long does not keep the screen from ending.
func TestScreenEndsWhileTheMastersAreAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShown()
		s.Take = func(ctx context.Context) Snapshot {
			<-ctx.Done()
			return Snapshot{}
		}
		done := make(chan error, 1)
		go func() { done <- s.Run(t.Context()) }()
		s.keys <- 'q'
		require.NoError(t, <-done)
	})
}

type brokenWriter struct{ left int }

var errBroken = errors.New("broken")

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func TestScreenThatCannotBeWrittenEnds(t *testing.T) {
	for left := range 3 {
		synctest.Test(t, func(t *testing.T) {
			s := newShown()
			s.Out = &brokenWriter{left}
			require.ErrorIs(t, s.Run(t.Context()), errBroken)
		})
	}
}

func TestWithoutATerminalNothingIsShown(t *testing.T) {
	assert.False(t, CanShow(&bytes.Buffer{}, &bytes.Buffer{}))
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	assert.False(t, CanShow(null, &bytes.Buffer{}))
	err = Show(t.Context(), null, &bytes.Buffer{}, time.Second, nil)
	require.ErrorIs(t, err, ErrNoTerminal)
	assert.Contains(t, err.Error(), "redlock list")
}
