// Package backlog has what the command and the page tell of a delayed queue.
package backlog

import (
	"context"
	"math"
	"time"

	"github.com/redquorum/redquorum/queue"
)

// Queue is what is asked about: a [queue.Queue].
type Queue interface {
	Count(ctx context.Context) (queue.Counts, error)
	Top(ctx context.Context, n int) ([]queue.Task, error)
	Dead(ctx context.Context, n int) ([]queue.DeadLetter, error)
}

// Status is what a queue has. The names of its fields are documented.
type Status struct {
	Queue   string   `json:"queue"`
	Waiting int      `json:"waiting"`
	Due     int      `json:"due"`
	Running int      `json:"running"`
	Dead    int      `json:"dead"`
	Tasks   []Task   `json:"due_tasks"`
	Letters []Letter `json:"dead_letters"`
}

// Task is one that is due.
type Task struct {
	ID       string    `json:"id"`
	Due      time.Time `json:"due"`
	Attempts int       `json:"attempts"`
	Payload  string    `json:"payload,omitempty"`
}

// Letter is a dead letter.
type Letter struct {
	ID       string    `json:"id"`
	Attempts int       `json:"attempts"`
	Died     time.Time `json:"died"`
	Payload  string    `json:"payload,omitempty"`
	Errors   []Failure `json:"errors"`
}

// Failure is why an attempt failed.
type Failure struct {
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	Text    string    `json:"text"`
}

// Look asks a queue of that name for its counts, and for up to so many of its tasks that are due,
// the oldest first, and of its dead letters, the newest first. None of the latter if dead is 0.
func Look(ctx context.Context, q Queue, name string, due, dead int) (Status, error) {
	s := Status{Queue: name, Tasks: []Task{}, Letters: []Letter{}}
	counts, err := q.Count(ctx)
	if err != nil {
		return s, err
	}
	s.Waiting, s.Due, s.Running, s.Dead = counts.Waiting, counts.Due, counts.Running, counts.Dead
	tasks, err := q.Top(ctx, due)
	for _, t := range tasks {
		s.Tasks = append(s.Tasks, Task{t.ID, timeOf(t.Score), t.Attempt, string(t.Payload)})
	}
	if err != nil || dead == 0 {
		return s, err
	}
	letters, err := q.Dead(ctx, dead)
	for i := range letters {
		l := &letters[i]
		told := Letter{l.ID, l.Attempts, l.Died.UTC(), string(l.Payload), []Failure{}}
		for _, f := range l.Errors {
			told.Errors = append(told.Errors, Failure{f.Attempt, f.At.UTC(), f.Text})
		}
		s.Letters = append(s.Letters, told)
	}
	return s, err
}

// timeOf returns the time of a score; what others wrote may be no time, and is cut to one.
func timeOf(score float64) time.Time {
	const most = 253402300799 // the last second that JSON can have
	return time.UnixMicro(int64(math.Round(min(max(score, 0), most) * 1e6))).UTC()
}
