package fakenode

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

// defaultLogLimit bounds what [Node.Commands] keeps: more than a test looks at, little enough for many nodes.
const defaultLogLimit = 10_000

func defaults() settings {
	return settings{rate: 1, buffer: DefaultBuffer, logLimit: defaultLogLimit}
}

// WithPassword makes the node ask for AUTH (as user "default").
func WithPassword(password string) Option { return func(s *settings) { s.password = password } }

// WithNodeClock sets the node's wall clock, by which keys expire: offset ahead of the wall clock of the clock that
// [New] is given, and running at rate (1 is right, 2 expires keys in half their time). See [Node.SetClock].
func WithNodeClock(offset time.Duration, rate float64) Option {
	return func(s *settings) { s.offset, s.rate = offset, rate }
}

// WithRunID sets the first run_id, 40 hexadecimal digits in Redis. The default is unique in this process.
func WithRunID(runID string) Option { return func(s *settings) { s.runID = runID } }

// WithUptime makes the first process look as if it had started that long ago.
func WithUptime(uptime time.Duration) Option { return func(s *settings) { s.uptime = uptime } }

// WithBuffer sets how many bytes a connection takes before a writer blocks, [DefaultBuffer] unless told. A session
// reads that much again before it executes.
func WithBuffer(bytes int) Option { return func(s *settings) { s.buffer = bytes } }

// WithCommandLog bounds how many commands [Node.Commands] keeps, the latest ones: 10,000 unless told, 0 for none.
func WithCommandLog(limit int) Option { return func(s *settings) { s.logLimit = limit } }
