//go:build linux

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/history"
)

// chunkHolds is how many holds porcupine judges together. It keeps a set of the operations for
// every step, so longer histories take too much memory.
const chunkHolds = 500

// check has porcupine judge the holds. It returns the names of which no order of events is right,
// and those that were too hard.
func check(holds []*hold) (illegal, undecided []string) {
	judgeOne := func(name string, list []*hold, m history.Model) {
		list = slices.DeleteFunc(slices.Clone(list), func(h *hold) bool { return h.void })
		for _, chunk := range chunks(list) {
			switch history.Check(historyOf(chunk), m) {
			case history.Legal:
			case history.Illegal:
				illegal = append(illegal, name)
				return
			case history.Undecided:
				undecided = append(undecided, name)
				return
			}
		}
	}
	for name, list := range byName(holds) {
		model := history.FencedMutex
		if slices.ContainsFunc(list, func(h *hold) bool { return h.shared }) {
			model = history.Shared
		}
		judgeOne(name, list, model)
	}
	for name, list := range bySemaphore(holds) {
		judgeOne(name, list, history.Semaphore)
	}
	slices.Sort(illegal)
	return illegal, undecided
}

// chunks splits the holds of a name where nobody has it. A chunk begins with the holds of the one
// before that had the largest tokens.
func chunks(list []*hold) (all [][]*hold) {
	var chunk []*hold
	var busy clock.Instant
	for i, h := range list {
		if len(chunk) >= chunkHolds && !overlaps(list[i:], busy) {
			all = append(all, chunk)
			chunk = append(largest(chunk, true), largest(chunk, false)...)
		}
		chunk = append(chunk, h)
		busy = max(busy, h.end)
	}
	return append(all, chunk)
}

// overlaps reports whether one of the next holds began before an instant.
func overlaps(next []*hold, busy clock.Instant) bool {
	const horizon = 100 // later ones were called later
	return slices.ContainsFunc(next[:min(len(next), horizon)], func(h *hold) bool { return h.begin < busy })
}

func largest(chunk []*hold, shared bool) (most []*hold) {
	for _, h := range chunk {
		if h.shared == shared && h.token != 0 && (most == nil || h.token > most[0].token) {
			most = []*hold{h}
		}
	}
	return most
}

// historyOf returns holds as a history. A release takes place at the end of the hold.
func historyOf(holds []*hold) []history.Event {
	var r history.Recorder
	for _, h := range holds {
		op := history.Operation{Function: history.Acquire, Name: h.name, Permits: h.permits}
		if h.shared {
			op.Function = history.AcquireShared
		}
		call := r.Invoke(h.begin, op)
		call.Return(h.got, history.OK, h.token)
		call.Release(h.end).Return(h.end, history.OK, 0)
	}
	return r.History()
}

// historyVariable names a directory for histories.
const historyVariable = "REDQUORUM_HISTORY"

// writeHistories writes a file of EDN for each name, if that is wanted. They are not split.
func writeHistories(holds []*hold, tasks []history.Event) error {
	dir := os.Getenv(historyVariable)
	if dir == "" {
		return nil
	}
	histories := map[string][]history.Event{"queue": tasks}
	for name, list := range byName(slices.DeleteFunc(slices.Clone(holds), func(h *hold) bool { return h.void || h.kind == "handle" })) {
		histories[name] = historyOf(list)
	}
	for name, list := range bySemaphore(holds) {
		histories[name] = historyOf(list)
	}
	for name, events := range histories {
		file, err := os.Create(filepath.Join(dir, fmt.Sprintf("chaos-%s.edn", strings.ReplaceAll(name, "#", "-"))))
		if err != nil {
			return err
		}
		defer file.Close()
		if err := history.WriteEDN(file, events); err != nil {
			return err
		}
	}
	return nil
}
