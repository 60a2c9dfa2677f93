package fake

import "time"

// Option is a setting of a new [Node].
type Option func(*settings)

type settings struct {
	password string
	runID    string
	uptime   time.Duration
	offset   time.Duration
	rate     float64
	buffer   int
	logLimit int
}

// defaultLogLimit bounds what [Node.Commands] keeps: more than a test needs, and few enough for
// many nodes.
const defaultLogLimit = 10_000

func defaults() settings {
	return settings{rate: 1, buffer: DefaultBuffer, logLimit: defaultLogLimit}
}

// WithPassword makes the node require AUTH (as user "default").
func WithPassword(password string) Option { return func(s *settings) { s.password = password } }

// WithNodeClock sets the node's wall clock, by which keys expire: offset ahead of the wall clock
// that [New] is given, and running at rate (1 is right, 2 expires keys in half their time). See
// [Node.SetClock].
func WithNodeClock(offset time.Duration, rate float64) Option {
	return func(s *settings) { s.offset, s.rate = offset, rate }
}

// WithRunID sets the run_id of the first process (in Redis 40 hexadecimal digits). The default is
// unique in this process.
func WithRunID(runID string) Option { return func(s *settings) { s.runID = runID } }

// WithUptime makes the first process appear to have started that long ago.
func WithUptime(uptime time.Duration) Option { return func(s *settings) { s.uptime = uptime } }

// WithBuffer sets how many bytes a connection takes before a writer blocks; the default is
// [DefaultBuffer]. A session reads as many again before it executes.
func WithBuffer(bytes int) Option { return func(s *settings) { s.buffer = bytes } }

// WithCommandLog sets how many of the latest commands [Node.Commands] keeps: 10,000 by default, 0
// for none.
func WithCommandLog(limit int) Option { return func(s *settings) { s.logLimit = limit } }
