package queue

import (
	"bytes"
	"context"
	"math"
	"strconv"
	"strings"
	"time"
)

// DeadLetter is a task that has used up its attempts ([WithMaxAttempts]).
type DeadLetter struct {
	ID       string
	Payload  []byte // nil for none
	Attempts int
	Died     time.Time // by the clock of the store
	Errors   []Failure // of the last attempts, newest first; as many as fit into 4 KiB
}

// Failure is why an attempt failed.
type Failure struct {
	Attempt int
	At      time.Time // by the clock of the store
	Text    string    // 1 KiB at most: what is longer is cut off
}

// Dead returns up to n dead letters (1 to 2,000), newest first; fewer if they do not fit into one
// reply (800 KiB). It does not wait for the lock.
//
// There is one letter for an id, the newest. The store keeps 10,000 of a queue until they are
// dropped or retried: another one takes the place of the oldest, and [WithReport] is told. A queue
// that stopped there would let the dead hold up the living.
func (q *Queue) Dead(ctx context.Context, n int) ([]DeadLetter, error) {
	if err := checkCount(n); err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, invalid("ctx is nil")
	}
	reply, _, err := q.store.run(ctx, deadScript, areLetters, n, maxBytes)
	if err != nil {
		return nil, err
	}
	letters, _ := readLetters(reply)
	return letters, nil
}

// Retry puts dead letters (1 to 10,000) back into the queue, due at once, with their payloads and
// with all attempts before them, and returns how many there were. One whose id is in the queue
// again stays. Errors are those of [Queue.Enqueue].
func (q *Queue) Retry(ctx context.Context, ids ...string) (int, error) {
	return q.counted(ctx, "retry", lettersScript, ids, "retry")
}

// Drop removes dead letters (1 to 10,000), and returns how many there were. Errors are those of
// [Queue.Enqueue].
func (q *Queue) Drop(ctx context.Context, ids ...string) (int, error) {
	return q.counted(ctx, "drop", lettersScript, ids, "drop")
}

// Counts are how many tasks of a queue are in which state.
type Counts struct {
	Waiting int // not due yet
	Due     int // due, and no worker has taken them
	Running int // leased by a worker; as far as is known of 10,000
	Dead    int // dead letters, which [Queue.Len] does not count
}

// Count returns how many tasks are in which state. One that was enqueued again while its handler
// runs is waiting or due. It does not wait for the lock.
func (q *Queue) Count(ctx context.Context) (Counts, error) {
	if ctx == nil {
		return Counts{}, invalid("ctx is nil")
	}
	reply, _, err := q.store.run(ctx, countScript, areCounts)
	if err != nil {
		return Counts{}, err
	}
	counts, _ := readCounts(reply)
	return counts, nil
}

func readCounts(reply any) (Counts, bool) {
	entries, _ := reply.([]any)
	if len(entries) != 4 {
		return Counts{}, false
	}
	var numbers [4]int
	for i, entry := range entries {
		n, ok := entry.(int64)
		if !ok {
			return Counts{}, false
		}
		numbers[i] = int(n)
	}
	return Counts{Waiting: numbers[0], Due: numbers[1], Running: numbers[2], Dead: numbers[3]}, true
}

func areCounts(reply any) bool {
	_, ok := readCounts(reply)
	return ok
}

// readLetters reads the reply of dead.lua.
func readLetters(reply any) (letters []DeadLetter, ok bool) {
	entries, ok := reply.([]any)
	if !ok || len(entries)%2 != 0 {
		return nil, false
	}
	for i := 0; i < len(entries); i += 2 {
		id, ok1 := entries[i].([]byte)
		record, ok2 := entries[i+1].([]byte)
		letter, ok3 := readLetter(string(id), record)
		if !ok1 || !ok2 || !ok3 {
			return nil, false
		}
		letters = append(letters, letter)
	}
	return letters, true
}

func areLetters(reply any) bool {
	_, ok := readLetters(reply)
	return ok
}

// readLetter reads a record (record.lua) whose score is the time of the death.
func readLetter(id string, record []byte) (letter DeadLetter, ok bool) {
	head, rest, _ := bytes.Cut(record, []byte("\n"))
	fields := bytes.Fields(head)
	if len(fields) != 3 {
		return letter, false
	}
	died, err1 := strconv.ParseFloat(string(fields[0]), 64)
	attempts, err2 := strconv.Atoi(string(fields[1]))
	size, err3 := strconv.Atoi(string(fields[2]))
	if err1 != nil || err2 != nil || err3 != nil || size < 0 || size > len(rest) {
		return letter, false
	}
	letter = DeadLetter{ID: id, Attempts: attempts, Died: time.UnixMicro(int64(math.Round(died * 1e6))), Errors: readFailures(rest[:size])}
	if payload := rest[size:]; len(payload) > 0 {
		letter.Payload = payload
	}
	return letter, true
}

// readFailures reads the errors of a record. The last one may be cut off.
func readFailures(text []byte) (failures []Failure) {
	for {
		head, rest, _ := bytes.Cut(text, []byte("\n"))
		fields := bytes.Fields(head)
		if len(fields) != 3 {
			return failures
		}
		at, err1 := strconv.ParseInt(string(fields[0]), 10, 64)
		attempt, err2 := strconv.Atoi(string(fields[1]))
		size, err3 := strconv.Atoi(string(fields[2]))
		if err1 != nil || err2 != nil || err3 != nil || size < 0 || len(rest) == 0 {
			return failures
		}
		size = min(size, len(rest))
		failures = append(failures, Failure{attempt, time.UnixMicro(at), strings.ToValidUTF8(string(rest[:size]), "")})
		text = rest[size:]
	}
}
