package history_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/history"
)

// What a checker would misread: names with quotes, and what not every lock has.
func TestEDNTellsEverythingOfAnEvent(t *testing.T) {
	var r history.Recorder
	call := r.Invoke(10, history.Operation{Function: history.AcquireShared, Name: "a\"\\ :}", Permits: 2})
	call.Return(20, history.OK, 7)
	call.Release(30).Return(40, history.Info, 0)
	r.Invoke(50, history.Operation{Function: history.Acquire, Name: "#{1}"}).Return(60, history.Fail, 0)
	r.Invoke(70, history.Operation{Function: history.Enqueue, Name: "q", Task: "t\""}).Return(80, history.OK, 0)
	var text strings.Builder
	require.NoError(t, history.WriteEDN(&text, r.History()))
	assert.Equal(t, `{:index 0, :time 10, :process 0, :type :invoke, :f :acquire-shared, :value nil, :name "a\"\\ :}", :permits 2}
{:index 1, :time 20, :process 0, :type :ok, :f :acquire-shared, :value 7, :name "a\"\\ :}", :permits 2}
{:index 2, :time 30, :process 0, :type :invoke, :f :release-shared, :value nil, :name "a\"\\ :}", :permits 2}
{:index 3, :time 40, :process 0, :type :info, :f :release-shared, :value nil, :name "a\"\\ :}", :permits 2}
{:index 4, :time 50, :process 1, :type :invoke, :f :acquire, :value nil, :name "#{1}"}
{:index 5, :time 60, :process 1, :type :fail, :f :acquire, :value nil, :name "#{1}"}
{:index 6, :time 70, :process 2, :type :invoke, :f :enqueue, :value "t\"", :name "q"}
{:index 7, :time 80, :process 2, :type :ok, :f :enqueue, :value "t\"", :name "q"}
`, text.String())
}

// A process does one thing at a time, and nothing after something whose outcome is unknown. Without
// that, Jepsen's checkers refuse a history.
func TestAProcessDoesOneThingAtATime(t *testing.T) {
	var r history.Recorder
	kept := r.Invoke(1, history.Operation{Function: history.Acquire, Name: "a"})
	kept.Return(5, history.OK, 0)
	kept.Release(8).Return(9, history.OK, 0)
	taken := r.Invoke(2, history.Operation{Function: history.Acquire, Name: "a"})
	taken.Return(9, history.OK, 0)
	taken.Release(7)
	moment := r.Invoke(9, history.Operation{Function: history.Acquire, Name: "a"})
	moment.Return(9, history.OK, 0)
	moment.Release(9).Return(9, history.Info, 0)
	busy, crashed := map[int]bool{}, map[int]bool{}
	for _, e := range r.History() {
		assert.False(t, crashed[e.Process], "%+v", e)
		assert.Equal(t, e.Type != history.Invoke, busy[e.Process], "%+v", e)
		busy[e.Process], crashed[e.Process] = e.Type == history.Invoke, e.Type == history.Info
	}
}
