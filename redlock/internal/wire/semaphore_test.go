package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

func TestOnlyAnswersAboutAPermitAreAccepted(t *testing.T) {
	fence := []byte("1700000000000000")
	take := (&Take{Semaphore: Semaphore{"s", 2}}).Request()
	wait := (&AwaitPermit{Semaphore: Semaphore{"s", 2}}).Request()
	for _, reply := range []any{
		[]any{int64(-1), int64(3)},
		[]any{int64(0), int64(0), []byte("01")},
		[]any{int64(2), int64(1), []byte("00")},
	} {
		assert.True(t, take.Accept(reply), "%v", reply)
	}
	for _, reply := range []any{
		nil, "OK", int64(1),
		[]any{},
		[]any{int64(1)},
		[]any{int64(0), int64(0)},
		[]any{int64(1), int64(1)},
		[]any{int64(-1), int64(0)},
		[]any{int64(-1), int64(MaxPermits + 1)},
		[]any{int64(-1), fence},
		[]any{int64(3), int64(1), []byte("00")},
		[]any{int64(1), int64(0), []byte("00")},
		[]any{int64(1), fence, []byte("00")}, // without fencing
		[]any{int64(1), "x", []byte("00")},
		[]any{int64(0), fence, []byte("00")},
		[]any{int64(0), int64(0), []byte("0")},
		[]any{int64(0), int64(0), []byte("02")},
		[]any{int64(0), int64(0), nil},
		[]any{nil, int64(0), []byte("00")},
	} {
		assert.False(t, take.Accept(reply), "%v", reply)
	}
	for _, reply := range []any{
		[]any{int64(-1), int64(3)}, []any{int64(2), int64(1)}, []any{int64(0), int64(-1), int64(0)},
	} {
		assert.True(t, wait.Accept(reply), "%v", reply)
	}
	for _, reply := range []any{
		nil, []any{int64(0), int64(0)}, []any{int64(3), int64(1)}, []any{int64(1), fence}, []any{int64(1), int64(5), int64(1)}, []any{int64(0), fence, int64(1)},
	} {
		assert.False(t, wait.Accept(reply), "%v", reply)
	}
	fenced := Fencing{Wall: 1, Life: time.Minute}
	take = (&Take{Semaphore: Semaphore{"s", 2}, Fencing: fenced}).Request()
	wait = (&AwaitPermit{Semaphore: Semaphore{"s", 2}, Fencing: fenced}).Request()
	assert.True(t, take.Accept([]any{int64(2), fence, []byte("10")}))
	assert.False(t, take.Accept([]any{int64(2), int64(1), []byte("10")}))
	assert.True(t, wait.Accept([]any{int64(1), fence}))
	assert.False(t, wait.Accept([]any{int64(1), int64(1)}))
}

func TestAPermitIsExtendedIfItsSlotAndTheNumberAre(t *testing.T) {
	oom := []byte("OOM")
	for i, one := range []struct {
		replies []any
		vote    quorum.Vote
		touched bool
		err     string
	}{
		{[]any{int64(1), int64(1)}, quorum.Granted, true, ""},
		{[]any{int64(1), int64(2)}, quorum.Refused, true, ""},
		{[]any{int64(1), int64(0)}, quorum.Refused, true, ""},
		{[]any{int64(2), int64(1)}, quorum.Refused, true, ""},
		{[]any{int64(0), int64(1)}, quorum.Refused, false, ""},
		{[]any{int64(0), int64(2)}, quorum.Refused, false, ""},
		{[]any{int64(1), oom}, quorum.Failed, true, "OOM"},
		{[]any{oom, int64(1)}, quorum.Failed, false, "OOM"},
		{[]any{int64(1)}, quorum.Failed, true, ""},
		{nil, quorum.Failed, true, ""},
	} {
		answer := ReadExtended(one.replies)
		vote, touched, err := answer.NextPermit()
		assert.Equal(t, one.vote, vote, i)
		assert.Equal(t, one.touched, touched, i)
		if one.err == "" {
			assert.NoError(t, err, i)
		} else {
			assert.ErrorContains(t, err, one.err, i)
		}
	}
	all := ReadExtended(allExtended)
	vote, touched, err := all.NextPermit()
	assert.Equal(t, quorum.Granted, vote)
	assert.True(t, touched)
	assert.NoError(t, err)
}
