//go:build linux

package chaos

import (
	"fmt"
	"strings"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/history"
)

// tasks is what happened to the tasks of both queues.
type tasks struct {
	history history.Recorder // of those that are popped

	pushed  map[string]clock.Instant // those that certainly were, with their queue, and when
	maybe   map[string]bool          // those that may have been
	popped  map[string]int           // how often each was returned without a doubt
	doubted map[string]bool          // those that came with an error
	handled map[string]bool
	gone    int // how many may be lost with clients that were killed in Pop
}

func newTasks() *tasks {
	return &tasks{
		pushed: make(map[string]clock.Instant), maybe: make(map[string]bool), popped: make(map[string]int), doubted: make(map[string]bool),
		handled: make(map[string]bool),
	}
}

// add takes the events of a client.
func (s *tasks) add(events []event) {
	calls := make(map[int64]event)
	for _, e := range events {
		switch e.Type {
		case pushEvent, popEvent:
			calls[e.ID] = e
		case pushedEvent:
			s.push(calls[e.ID], &e)
			delete(calls, e.ID)
		case poppedEvent:
			s.pop(calls[e.ID], e)
			delete(calls, e.ID)
		case gotEvent:
			if id, ok := strings.CutPrefix(e.Names[0], handled+"/"); ok {
				s.handled[id] = true
			}
		}
	}
	for _, call := range calls { // it was killed
		if call.Type == pushEvent {
			s.push(call, nil)
		} else {
			s.gone += fullBatch
		}
	}
}

func (s *tasks) push(call event, outcome *event) {
	for _, id := range call.Tasks {
		sure := outcome != nil && !outcome.Doubt
		if sure {
			s.pushed[call.Names[0]+"/"+id] = outcome.At
		} else {
			s.maybe[call.Names[0]+"/"+id] = true
		}
		if call.Names[0] != popped {
			continue
		}
		op := s.history.Invoke(call.At, history.Operation{Function: history.Enqueue, Name: popped, Task: id})
		if sure {
			op.Return(outcome.At, history.OK, 0)
		} else if outcome != nil {
			op.Return(outcome.At, history.Info, 0)
		}
	}
}

func (s *tasks) pop(call, outcome event) {
	for _, id := range outcome.Tasks {
		op := s.history.Invoke(call.At, history.Operation{Function: history.Dequeue, Name: popped, Task: id})
		if outcome.Doubt {
			s.doubted[id] = true
			op.Return(outcome.At, history.Info, 0)
			continue
		}
		s.popped[id]++
		op.Return(outcome.At, history.OK, 0)
	}
}

// judge finds tasks that were delivered twice, or not at all.
func (s *tasks) judge(end clock.Instant) (found []history.Violation) {
	add := func(what string) { found = append(found, history.Violation{Name: "queue", What: what, From: end, To: end}) }
	for id, times := range s.popped {
		_, pushed := s.pushed[popped+"/"+id]
		switch {
		case times > 1:
			add(fmt.Sprintf("task %s was popped %d times", id, times))
		case !pushed && !s.maybe[popped+"/"+id]:
			add(fmt.Sprintf("task %s was popped, and nobody pushed it", id))
		}
	}
	lost := 0
	for task := range s.pushed {
		queue, id, _ := strings.Cut(task, "/")
		switch {
		case queue == handled && !s.handled[id]:
			add(fmt.Sprintf("task %s was never handled", id))
		case queue == popped && s.popped[id] == 0 && !s.doubted[id]:
			lost++
		}
	}
	if lost > s.gone {
		add(fmt.Sprintf("%d tasks were lost, and at most %d with clients that were killed", lost, s.gone))
	}
	return found
}
