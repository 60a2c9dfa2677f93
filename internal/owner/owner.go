// Package owner says who has a lock, and since when, in what is stored behind the random digits of
// its value. It is for people who look at the key: nobody decides anything by it.
//
//	|@seconds|owner   of an attempt that does not wait
//	|~seconds|owner   of one that may wait before it has the lock
//	|owner            of the value that stands for readers, and of other libraries
//
// The time is that of the wall clock when the attempt began.
package owner

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Most is how long an owner may be, in bytes.
const Most = 256

const (
	beganNow    = '@'
	beganToWait = '~'
)

// Process returns user@host:pid and the name of the program.
var Process = sync.OnceValue(func() string {
	name, host := "?", "?"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	rest := ":" + strconv.Itoa(os.Getpid())
	if len(os.Args) > 0 { // not in a shared library
		rest += " " + strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	}
	rest = rest[:min(len(rest), Most/2)]
	at := name + "@" + host
	return at[:min(len(at), Most-len(rest))] + rest
})

// latest is the last second that a value can tell, in the year 36812.
const latest = 1<<40 - 1

// Append appends an owner to a value that nobody chose, and when its attempt began: a clock that is
// set to a time before 1970 tells the beginning of that.
func Append(value []byte, owner string, began time.Time, waits bool) []byte {
	mark := byte(beganNow)
	if waits {
		mark = beganToWait
	}
	value = strconv.AppendInt(append(value, '|', mark), min(max(began.Unix(), 0), latest), 10)
	return append(append(value, '|'), owner...)
}

// Request ends the owner of a run that asks the one before it to end (redlock run --replace), with
// the 16 digits of a digest behind it. It is for the wait list.
const Request = ", to replace "

// Of returns the owner in a value, when its attempt began, zero if that is unknown, and whether it
// may have waited from then on. The owner of a lock asks for nothing any more.
func Of(value string) (owner string, began time.Time, waited bool) {
	_, text, _ := strings.Cut(value, "|")
	owner, began, waited = Split(text)
	if end := len(owner) - len(Request) - 16; end > 0 && strings.HasPrefix(owner[end:], Request) {
		owner = owner[:end]
	}
	return owner, began, waited
}

// Split is [Of] for what is behind the first | of a value.
func Split(text string) (owner string, began time.Time, waited bool) {
	head, owner, found := strings.Cut(text, "|")
	if !found || head == "" || head[0] != beganNow && head[0] != beganToWait {
		return text, time.Time{}, false
	}
	seconds, err := strconv.ParseUint(head[1:], 10, 40)
	if err != nil {
		return text, time.Time{}, false
	}
	return owner, time.Unix(int64(seconds), 0), head[0] == beganToWait
}
