package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redquorum/redquorum/internal/ask"
)

const (
	// reserved is how the keys begin that are stored beside the locks.
	reserved = "redquorum:"

	// termsPrefix is how the keys begin that have the terms of elections.
	termsPrefix = reserved + "terms:"

	// longestValue is the longest value of a lock with the longest owner behind it, in bytes.
	// Clients of other libraries use short values.
	longestValue = 1024 + len("|") + 256

	// step is how many keys a master looks at in one SCAN at most. It answers others in between.
	step = 1000

	// firstStep is how many it looks at in the first: that many of the longest names fit into one
	// reply.
	firstStep = 100

	// pageBytes is how much the names of later ones may take. A connection takes 1 MiB.
	pageBytes = 256 << 10
)

const (
	// longestName is that of a lock, in bytes.
	longestName = 4096

	// mostScanned is how much the names of one master may take.
	mostScanned = 32 << 20
)

// Reason says why a key is no lock.
type Reason string

// Reasons why keys are left out of a list of locks.
const (
	Lasting   Reason = "lasting"   // it does not expire
	Large     Reason = "large"     // its value is longer than that of any lock
	OtherType Reason = "type"      // it is no string
	Forbidden Reason = "forbidden" // the user may not read it
)

// Scan is how one master was looked through for locks.
type Scan struct {
	Endpoint string            // without user and password
	Names    []string          // that may be those of locks: strings of their size that expire
	LeftOut  map[string]Reason // the names of other keys
	Keys     int               // about how many keys were looked at
	Bounded  bool              // a bound of the [Query] ended the scan, so there may be more
	Err      error             // why the scan ended early; what was found until then counts

	elections []string // that it came across, by their records
}

// ForbiddenError says that the user may not run a command that a scan needs.
type ForbiddenError struct {
	Command string
	Err     error // what the server said
}

// Error names the command and quotes the server.
func (e *ForbiddenError) Error() string { return fmt.Sprintf("%s is refused: %v", e.Command, e.Err) }

// Unwrap returns Err.
func (e *ForbiddenError) Unwrap() error { return e.Err }

// scanner scans one master.
type scanner struct {
	ask.Master
	prefix string
	seen   map[string]bool
	found  Scan
}

// scan looks for the locks of one master whose names match the pattern and have the prefix. It
// reads no value. A master that tells more than it was asked for meets the bounds, too, and one of
// mostScanned.
func scan(ctx context.Context, m ask.Master, prefix string, q *Query) Scan {
	s := scanner{Master: m, prefix: prefix, seen: map[string]bool{}}
	s.found.Endpoint, s.found.LeftOut = m.Node.Endpoint(), map[string]Reason{}
	s.found.Err = s.scan(ctx, ask.Literal(prefix)+q.Pattern, q)
	return s.found
}

func (s *scanner) scan(ctx context.Context, pattern string, limit *Query) error {
	cursor, count, size := "0", firstStep, 0
	for {
		reply, err := s.Send("SCAN", cursor, "MATCH", pattern, "COUNT", count).Wait(ctx)
		if err != nil {
			return forbidden("SCAN", err)
		}
		next, keys, ok := pageOf(reply)
		if !ok {
			return errors.New("the answer to SCAN makes no sense")
		}
		s.found.Keys += max(count, len(keys))
		for _, key := range keys {
			size += len(key)
		}
		// They come in the order of their hashes, so the next ones are as long as these.
		count = min(max(s.found.Keys*pageBytes/max(size, 1), firstStep), step)
		if err := s.take(ctx, keys); err != nil {
			return err
		}
		if cursor = next; cursor == "0" {
			return nil
		}
		if s.found.Keys >= limit.Keys || len(s.found.Names)+len(s.found.elections) >= limit.Locks || size >= mostScanned {
			s.found.Bounded = true
			return nil
		}
	}
}

// pageOf parses a reply to SCAN: the next cursor, and keys.
func pageOf(reply any) (cursor string, keys []string, ok bool) {
	parts, _ := reply.([]any)
	if len(parts) != 2 {
		return "", nil, false
	}
	list, ok := parts[1].([]any)
	for _, key := range list {
		keys = append(keys, ask.Text(key))
	}
	return ask.Text(parts[0]), keys, ok && ask.Text(parts[0]) != ""
}

// take sorts keys into locks and others. SCAN may return a key more than once.
func (s *scanner) take(ctx context.Context, keys []string) error {
	type question struct {
		name         string
		length, left ask.Reply
	}
	var asked []question
	for _, key := range keys {
		if len(key) > len(termsPrefix)+len(s.prefix)+longestName {
			continue
		}
		if name, is := strings.CutPrefix(key, termsPrefix+s.prefix); is && !s.seen[key] {
			s.seen[key] = true
			s.found.elections = append(s.found.elections, name)
		}
		name, ours := strings.CutPrefix(key, s.prefix)
		if !ours || name == "" || len(name) > longestName || s.seen[name] || isOwn(key, name) {
			continue
		}
		s.seen[name] = true
		asked = append(asked, question{name, s.Send("STRLEN", key), s.Send("PTTL", key)})
	}
	for _, q := range asked {
		length, err := q.length.Wait(ctx)
		left, err2 := q.left.Wait(ctx)
		if why, ok := refused(err); ok {
			s.found.LeftOut[q.name] = why
			continue
		}
		if err := cmp.Or(forbidden("STRLEN", err), forbidden("PTTL", err2)); err != nil {
			return err
		}
		size, ok := length.(int64)
		switch {
		case !ok:
			return errors.New("the answer to STRLEN makes no sense")
		case left == int64(-2): // it is gone
		case left == int64(-1):
			s.found.LeftOut[q.name] = Lasting
		case size > int64(longestValue):
			s.found.LeftOut[q.name] = Large
		default:
			s.found.Names = append(s.found.Names, q.name)
		}
	}
	return nil
}

// isOwn reports whether a key is one of ours that is no lock. redlock doctor writes behind the
// prefix.
func isOwn(key, name string) bool {
	return strings.HasPrefix(key, reserved) || strings.HasPrefix(name, reserved+"doctor:")
}

// refused reports whether a key was refused, not the command, and why.
func refused(err error) (why Reason, is bool) {
	refusal := ask.RefusalOf(err)
	switch {
	case refusal == nil:
		return "", false
	case strings.HasPrefix(refusal.Error(), "WRONGTYPE"):
		return OtherType, true
	case ask.IsAboutKey(refusal):
		return Forbidden, true
	default:
		return "", false
	}
}

// forbidden explains why a command failed; nil if it did not.
func forbidden(command string, err error) error {
	if refusal := ask.RefusalOf(err); refusal != nil {
		return &ForbiddenError{command, refusal}
	}
	return err
}
