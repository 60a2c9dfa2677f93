package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/redquorum/redquorum/redlock"
)

// What a key is that can be that of no lock: a lock is a string that expires.
const (
	Lasting  = "does not expire"
	NoString = "is no string"
)

// UseAnother is what to do about a key that is no lock.
const UseAnother = "use another name or --key-prefix"

// NoLock says that a key is that of no lock, and which of the two above it is.
func NoLock(key, is string) string { return fmt.Sprintf("the key %q %s: it is no lock", key, is) }

// Misnamed returns an error with the status [ExitMisnamed] if a quorum of masters has something
// under a key that can be no lock; nil if not. No lock of that name can be acquired, however long
// one waits.
func Misnamed(key string, status *redlock.Status) error {
	lasting, others := 0, 0
	for _, n := range status.Nodes {
		switch {
		case IsWrongType(n.Err):
			others++
		case n.Err == nil && n.TTL < 0:
			lasting++
		}
	}
	if lasting+others < max(status.Quorum, 1) {
		return nil
	}
	is := Lasting
	if others > lasting {
		is = NoString
	}
	return StatusError{Status: ExitMisnamed, Err: errors.New(NoLock(key, is) + "; " + UseAnother)}
}

// How Redis says that a key is no string.
const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"

// IsWrongType reports whether a master has answered that a key is no string.
func IsWrongType(err error) bool { return err != nil && strings.Contains(err.Error(), "WRONGTYPE") }

// scriptPlace is where in a script a command has failed, as Redis 7 and Valkey say it. It tells a
// user nothing.
var scriptPlace = regexp.MustCompile(`:? script: [0-9a-f]{40}, on @user_script:[0-9]+\.?`)

// credentials are the part of an endpoint that nobody may see. What was mistaken for a file, a
// command or a name may be an endpoint.
var credentials = regexp.MustCompile(`([A-Za-z]+://)[^\s"']*@`)

// Readable returns the text of an error without what only the authors of its script understand, and
// without passwords.
func Readable(text string) string {
	text = credentials.ReplaceAllString(scriptPlace.ReplaceAllString(text, ""), "$1…@")
	return strings.ReplaceAll(text, wrongType, "the key "+NoString)
}
