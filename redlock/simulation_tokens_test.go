package redlock_test

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redquorum/redquorum/redlock"
)

// Phases of a token simulation: some locks, and then none for longer than counters live.
const (
	era       = 12 * time.Minute
	eraActive = time.Second
)

// tokens gives one master a wrong clock and wrong counters, and breaks nothing else. These faults
// make the master forget locks, so two clients may hold a lock at once; only tokens are judged.
func tokens(u *users, rng *rand.Rand) {
	u.judge.order = true
	faulty := rng.IntN(len(u.servers))
	served := uint64(0)
	for u.goesOn() {
		u.pause(upTo(rng, eraActive/4))
		switch rng.IntN(3) {
		case 0:
			u.nearest(rng)
		case 1:
			u.servers[faulty].SetClock(wrongClocks[rng.IntN(len(wrongClocks))], 1)
		default:
			u.spoil(faulty, rng)
		}
		if u.active() {
			continue
		}
		if now := u.judge.tenures(); now == served {
			u.judge.fail("no client got a lock with a token in the last %v", era)
		} else {
			served = now
		}
		if rng.IntN(2) == 0 {
			u.servers[faulty].SetClock(0, 1)
		}
		u.pause(era - time.Duration(u.clock.Now())%era)
	}
	u.servers[faulty].SetClock(0, 1)
}

var wrongClocks = []time.Duration{0, time.Minute, -time.Minute, time.Hour, -time.Hour, 365 * 24 * time.Hour, 290 * 365 * 24 * time.Hour}

// active reports whether clients lock now.
func (u *users) active() bool { return time.Duration(u.clock.Now())%era < eraActive }

// nearest changes which nodes answer first, so different nodes form the quorum.
func (u *users) nearest(rng *rand.Rand) {
	for i := range u.servers {
		u.slowDown(i, time.Millisecond<<rng.IntN(4))
	}
}

// spoil writes values that redquorum never writes into the counters of a node. They are not smaller
// than what is there: that would be a lost counter, which must stay out for a while (S16).
func (u *users) spoil(i int, rng *rand.Rand) {
	key := "redquorum:fence:" + u.names[rng.IntN(len(u.names))]
	now := u.clock.Wall().UnixMicro()
	commands := [][]any{
		{"SET", key, "9007199254740990"},
		{"SET", key, "9007199254740991"},
		{"SET", key, "9007199254740992"},
		{"SET", key, "99999999999999999999"},
		{"SET", key, "text"},
		{"SET", key, ""},
		{"SET", key, now + time.Hour.Microseconds()},
		{"SET", key, now + time.Minute.Microseconds(), "PX", 600000},
		{"EVAL", "redis.call('DEL', KEYS[1]) return redis.call('ZADD', KEYS[1], 1, 'member')", "1", key},
	}
	network, err := u.servers[i].Dial(u.base)
	if err != nil {
		return
	}
	conn := redis.NewConn(network, time.Second, time.Second)
	defer conn.Close()
	command := commands[rng.IntN(len(commands))]
	_, _ = conn.Do(command[0].(string), command[1:]...) //nolint:errcheck // nothing is down
}

// fences takes a lock with a token while the simulation is active.
func fences(u *users, c *client) {
	if !u.active() {
		u.pause(era - time.Duration(u.clock.Now())%era)
		return
	}
	ctx, cancel := context.WithTimeout(u.base, eraActive)
	defer cancel()
	since := u.clock.Now()
	lock, err := c.process.current().Lock(ctx, c.name(), redlock.WithFencing())
	if err != nil {
		return
	}
	u.judgeToken(c, lock.Fence())
	c.hold(lock, since)
}

// farAhead is the most that a token may be ahead of true time: twice what a client's clock may be
// off.
const farAhead = time.Minute

// judgeToken fails if a token is far ahead of true time.
func (u *users) judgeToken(c *client, token int64) {
	if ahead := time.UnixMicro(token).Sub(u.clock.Wall()); ahead > farAhead {
		u.judge.fail("%s got a token that is %v ahead of true time", c.who, ahead)
	}
}
