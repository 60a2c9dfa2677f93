package handoff

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

func keys(keys ...string) func() []string { return func() []string { return keys } }

func TestAHandOverIsRecordedUntilItsNodeHasNoWaiter(t *testing.T) {
	for name, how := range map[string]quorum.Vote{"handed over": quorum.Handed, "left to others": quorum.Spared} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := Record{clock: clocktest.New()}
				contended := func() bool { return r.Contended("p:", []string{"x", "a"}) }
				assert.False(t, contended())
				r.Released(1, quorum.Granted, func() []string { panic("nothing is marked: keys do not matter") })
				r.Released(1, how, keys("p:a"))
				assert.True(t, contended())
				assert.False(t, r.Contended("p:", []string{"b"}))
				assert.False(t, r.Contended("", []string{"a"}))
				r.Released(1, quorum.Granted, keys("p:a"))
				assert.True(t, contended(), "the other one may be on its way")
				time.Sleep(markMin + time.Millisecond)
				r.Released(0, quorum.Granted, keys("p:a"))
				assert.True(t, contended(), "another node does not know")
				r.Released(1, quorum.Refused, keys("p:a"))
				assert.True(t, contended(), "a refusal says nothing")
				r.Released(1, quorum.Granted, keys("p:a"))
				assert.False(t, contended())
			})
		})
	}
}

func TestAMarkThatNobodyComesBackForExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Record{clock: clocktest.New()}
		r.Mark("a", 0)
		time.Sleep(markLife)
		assert.True(t, r.Contended("", []string{"a"}))
		time.Sleep(time.Millisecond)
		assert.False(t, r.Contended("", []string{"a"}))
	})
}

func TestMarksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Record{clock: clocktest.New()}
		for i := range maxMarks {
			r.Mark(strconv.Itoa(i), 0)
		}
		r.Mark("one more", 0)
		assert.False(t, r.Contended("", []string{"one more"}))
		r.Mark("0", 0)
		assert.True(t, r.Contended("", []string{"0"}), "one that is there can be marked again")
		time.Sleep(markLife + time.Millisecond)
		r.Mark("one more", 0)
		assert.True(t, r.Contended("", []string{"one more"}), "expired ones make room")
		assert.Len(t, r.marks, 1)
	})
}
