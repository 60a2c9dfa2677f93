package redlock

import (
	"crypto/rand"
	"time"

	"github.com/redquorum/redquorum/internal/owner"
)

// Since is when a lock was acquired, as its value tells: by the clock of its holder, in seconds.
// Values of other libraries, of [WithValue] and without an owner do not tell.
type Since struct {
	Time   time.Time // when the attempt began; zero if the value does not tell
	Waited bool      // the attempt may have waited from then on, so the lock is held for less long
}

func ownerAndSince(value string) (string, Since) {
	name, began, waited := owner.Of(value)
	return name, Since{began, waited}
}

// ownersOf returns the owners of waiters, of what nodes tell of them.
func ownersOf(texts []string) []string {
	for i, text := range texts {
		texts[i], _, _ = owner.Split(text)
	}
	return texts
}

// valueRoom is the room for the usual value. Longer ones take more memory.
const valueRoom = 128

// appendValue appends the value of one attempt: at least 128 random bits, and behind them when it
// began and its owner, unless that is empty.
func (c *lockConfig) appendValue(to []byte, now time.Time, waits bool) []byte {
	to = appendRandom(to)
	if c.owner == "" {
		return to
	}
	return owner.Append(to, c.owner, now, waits)
}

// appendChosen appends what [WithValue] makes of a lock's value (value.go). Both sides know that
// value, so nothing is added that nobody asked for.
func (c *lockConfig) appendChosen(to []byte) []byte {
	to = append(to, c.value...)
	if c.named && c.owner != "" {
		to = append(append(to, '|'), c.owner...)
	}
	return to
}

// appendRandom appends 130 random bits as 26 characters of base32, as rand.Text returns them.
func appendRandom(to []byte) []byte {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	var random [26]byte
	_, _ = rand.Read(random[:]) // which never fails
	for _, b := range random {
		to = append(to, digits[b%32])
	}
	return to
}
