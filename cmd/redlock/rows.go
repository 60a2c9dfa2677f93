package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
)

// stateColumn is the one of the state in [tableOf].
const stateColumn = 2

// tableOf has a row for each lock.
func tableOf(locks []inspection) terminal.Table {
	table := terminal.Table{
		Heading: []string{"NAME", "KIND", "STATE", "HOLDER", "HELD", "LEFT", "WAITING", "MASTERS"}, Long: []int{0, 3},
	}
	for i := range locks {
		table.Rows = append(table.Rows, locks[i].row())
	}
	return table
}

func (i *inspection) row() []string {
	kind, state, holder, held, left, waiting := i.Kind, i.state(), "-", "-", "-", "-"
	if i.shared && kind == kindLock {
		kind = "shared"
	}
	switch {
	case state == "held":
		holder, held, left = i.holder(), i.longest().short(), leftText(i.left())
	case i.Probably != nil:
		holder, held, left = holderOf(i.Probably.Owner, i.Probably.Value)+"?", i.Probably.short(), leftText(i.Probably.TTLMillis)
	}
	if n := i.waiting(); n > 0 {
		waiting = strconv.Itoa(n)
	}
	return []string{printable(i.Name), kind, state, holder, held, left, waiting, fmt.Sprintf("%d of %d", i.holders(), i.Members)}
}

// state is the verdict; that of a semaphore is held if one of its permits is.
func (i *inspection) state() string {
	if i.Kind == kindSemaphore && i.Verdict == "free" {
		switch {
		case i.held(i.Permits) > 0:
			return "held"
		case slices.ContainsFunc(i.Permits, func(p holding) bool { return p.Verdict == "split" }):
			return "split"
		}
	}
	return i.Verdict
}

// holder names who holds the lock, by its value if it has no owner.
func (i *inspection) holder() string {
	switch {
	case i.Kind == kindSemaphore && i.Verdict != "held":
		return fmt.Sprintf("%d of %s", i.held(i.Permits), cli.Plural(len(i.Permits), "permit"))
	case i.shared:
		return cli.Plural(i.held(i.Readers), "reader")
	default:
		return holderOf(i.Owner, i.Value)
	}
}

func holderOf(owner, value string) string {
	if owner == "" {
		return shortened(value)
	}
	return printable(owner)
}

// left returns until when a majority has the lock, or the first of the permits; -1: for ever.
func (i *inspection) left() int64 {
	if i.Kind == kindSemaphore && i.Verdict != "held" {
		first := int64(-1)
		for _, p := range i.Permits {
			if p.Verdict == "held" && p.TTLMillis >= 0 && (first < 0 || p.TTLMillis < first) {
				first = p.TTLMillis
			}
		}
		return first
	}
	var left []time.Duration
	for _, n := range i.Nodes {
		if n.Value == i.Value && n.TTLMillis != 0 && n.Error == "" {
			left = append(left, time.Duration(n.TTLMillis)*time.Millisecond)
		}
	}
	return millisOf(left, i.Quorum)
}

// holders returns how many masters have the lock; of what has no majority, how many have anything;
// of a semaphore, how many have the permit that the fewest have.
func (i *inspection) holders() (masters int) {
	if i.Kind == kindSemaphore && i.Verdict == "free" {
		for _, p := range i.Permits {
			if p.Verdict == "held" && (masters == 0 || p.Masters < masters) {
				masters = p.Masters
			}
		}
		return masters
	}
	for _, n := range i.Nodes {
		if (n.Value != "" || n.TTLMillis != 0) && (i.Verdict != "held" || n.Value == i.Value) {
			masters++
		}
	}
	return masters
}

// leftText is a remaining time as people read it: 9.8s, 45s, 1m5s.
func leftText(millis int64) string {
	left := time.Duration(millis) * time.Millisecond
	switch {
	case millis < 0:
		return ttlText(millis)
	case left < 10*time.Second:
		return left.Truncate(100 * time.Millisecond).String()
	default:
		return left.Truncate(time.Second).String()
	}
}
