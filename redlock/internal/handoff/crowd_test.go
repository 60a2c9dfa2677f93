package handoff

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheFirstOfACrowdPollsAndTheNextTakesItsPlace(t *testing.T) {
	var crowds Crowds
	var wakeups []*Wakeup
	var members []*InCrowd
	for range 4 {
		w := NewWakeup()
		wakeups, members = append(wakeups, w), append(members, crowds.Join("a", w))
	}
	other := crowds.Join("b", NewWakeup())
	asked := func() (who []int) {
		for i, w := range wakeups {
			if len(w.Again) > 0 {
				who = append(who, i)
			}
			w.ClearAgain()
		}
		return who
	}
	assert.True(t, other.Polls())
	for i, in := range members {
		assert.Equal(t, i == 0, in.Polls())
	}
	members[1].Leave(false)
	assert.Empty(t, asked(), "it did not poll")
	members[0].Leave(false)
	assert.Equal(t, []int{2}, asked(), "the next one polls from now on")
	assert.True(t, members[2].Polls())
	last := crowds.Join("a", wakeups[0])
	members[3].Leave(true)
	assert.Equal(t, []int{0, 2}, asked(), "it had not been told that the lock is theirs")
	members[2].Leave(true)
	last.Leave(false)
	other.Leave(false)
	assert.Empty(t, crowds.byKey)
}
