package leasehttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/lease"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/redlock"
)

// longestSilence is that of a stream: less than proxies bear.
const longestSilence = 15 * time.Second

// stream holds a lease for a client that reads events.
type stream struct {
	door    *Door
	writer  http.ResponseWriter
	request *http.Request
	grant   lease.Grant
	ttl     time.Duration
	until   clock.Instant // of what the masters said last; never later than that
}

// hold grants a lease that is renewed while the client reads, and released when it hangs up:
//
//	granted ──renewed──▶ held ──▶ held … ──▶ lost
//
// Each event says how long the lease is valid if nothing follows, so a client that is cut off stops
// in time. Why the server may release what a client relied on a moment ago:
//
//   - The client has closed the connection, or its process has died: nobody relies on the lease any
//     more. It is released at once.
//   - The connection is broken: what was sent is not acknowledged, or not read. The client may be
//     alive and know nothing, so nothing is released, and nothing renewed: the lease ends when the
//     last event that the client has read says, or later.
//   - This server ends: the client is told so, and how long it has. It may go on at another server
//     by PUT, with its token.
//
// A proxy that closes one side and not the other makes the second look like the first
// (docs/safety.md, Limits).
func (d *Door) hold(w http.ResponseWriter, r *http.Request) {
	asked := wish{TTL: usualTTL}
	if !read(w, r, &asked) || !enter(w, d.streams, "leases are held") {
		return
	}
	defer func() { <-d.streams }()
	grant, ok := d.take(w, r, &asked)
	if !ok {
		return
	}
	s := &stream{door: d, writer: w, request: r, grant: grant, ttl: time.Duration(asked.TTL), until: d.clock.Now().Add(grant.Valid)}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx
	err := s.send("granted", granted{grant.Name, grant.Token, grant.Fence, grant.Valid.Milliseconds()})
	if err == nil {
		err = s.renew()
	}
	if !errors.Is(err, errStays) && !isBroken(r, err) {
		ctx, cancel := releasing(r)
		defer cancel()
		_ = d.leases.ReleaseSeen(ctx, grant.Name, grant.Ref()) //nolint:errcheck // it ends with its TTL
	}
}

// errStays ends a stream whose lease is not to be released: it is lost, or this server ends.
var errStays = errors.New("the lease is not released")

// renew extends the lease while the client is there. It returns why that ended.
func (s *stream) renew() error {
	pause := min(s.ttl/3, longestSilence)
	for next := pause; ; {
		due, timer := clock.After(s.door.clock, next)
		select {
		case <-s.request.Context().Done():
			timer.Stop()
			return s.leave()
		case <-due:
		}
		began := s.door.clock.Now()
		err := s.extend()
		switch {
		case err == nil:
			s.until, next = max(s.until, began.Add(s.ttl)), pause
			err = s.send("held", extended{s.ttl.Milliseconds()})
			if err != nil {
				return err
			}
		case errors.Is(err, redlock.ErrLost):
			return s.lose(redlock.ErrLost)
		case s.request.Context().Err() != nil:
			return s.leave()
		default:
			if next = min(pause/3, s.until.Sub(s.door.clock.Now())); next <= 0 {
				return s.lose(err)
			}
		}
	}
}

// extend renews once, for as long as the lease is valid at most. It renews that grant alone: who
// shares the token may have released it, and been granted another one.
func (s *stream) extend() error {
	ctx, cancel := context.WithCancel(s.request.Context())
	defer cancel()
	timer := s.door.clock.AfterFunc(s.until.Sub(s.door.clock.Now()), cancel)
	defer timer.Stop()
	return s.door.leases.ExtendSeen(ctx, s.grant.Name, s.grant.Ref(), s.ttl)
}

// lose tells that the lease is lost.
func (s *stream) lose(why error) error {
	_ = s.send("lost", lost{Error: "lost", Why: prose.Readable(why.Error())}) //nolint:errcheck // it is lost anyway
	return errStays
}

// leave returns why the request ended, and tells the client if that is because this server does.
func (s *stream) leave() error {
	err := context.Cause(s.request.Context())
	if !errors.Is(err, ErrEnding) {
		return err
	}
	valid := max(s.until.Sub(s.door.clock.Now()).Milliseconds(), 0)
	_ = s.send("lost", lost{Error: "lost", Why: ErrEnding.Error(), Valid: &valid}) //nolint:errcheck // it lapses anyway
	return errStays
}

// send sends an event.
func (s *stream) send(event string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // ours always encode
	}
	control := answering(s.writer)
	if _, err = fmt.Fprintf(s.writer, "event: %s\ndata: %s\n\n", event, prose.GraphicJSON(text)); err != nil {
		return err
	}
	return control.Flush()
}
