package wire

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/internal/proof/spec"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

const (
	pairTTL   = time.Minute
	pairGrace = time.Minute
	pairLife  = 10 * time.Minute

	pairMillis = 60_000 // each of the first two

	fenceKey = "redquorum:fence:"
	waitKey  = "redquorum:wait:"
)

// Every second value belongs to a process that listens, the others to one that does not. They have
// our form: the scripts treat other values differently (others.lua).
var pairValues = []string{pairForm + "a", pairForm + "b", pairForm + "c", pairForm + "d", pairForm + "e", pairForm + "f"}

const pairForm = "ABCDEFGHIJKLMNOPQRSTUVWXYZ|"

func pairAlive(value string) bool { return slices.Index(pairValues, value)%2 == 0 }

func pairProcess(value string) string {
	if pairAlive(value) {
		return "alive"
	}
	return "dead"
}

// place is the place of a waiter on a list.
func place(value string) string { return pairProcess(value) + ":" + value }

// places are those of waiters. A reader's begins with a sign, and that of a holder with another
// one.
func places(waiting []spec.Waiter[string]) []string {
	places := []string{}
	for _, waiter := range waiting {
		sign := ""
		if waiter.Until != 0 {
			sign = "="
		}
		if waiter.Reads {
			sign += "+"
		}
		places = append(places, sign+place(waiter.Value))
	}
	return places
}

// outcome is the vote of a release that the model did, or did not, and that left this.
func outcome(did bool, e *spec.Entry[string]) quorum.Vote {
	switch {
	case !did:
		return quorum.Refused
	case e.Absent():
		return quorum.Granted
	}
	return quorum.Handed
}

// A tester is a test, a property or a run of a fuzz target.
type tester interface {
	require.TestingT
	Helper()
}

// A server is one on which scripts run, one after the other. Its keys are only the test's.
type server struct {
	t    tester
	addr string
	dial func() (redis.Conn, error)
	conn redis.Conn
	node *pipeline.Node // for requests; nil until [server.connect]
}

func newServer(t testing.TB) *server {
	t.Helper()
	running := redistest.StartOne(t, redistest.WithUnixSocket())
	s := &server{t: t, addr: running.Addr()}
	s.dial = func() (redis.Conn, error) { // a message takes half as long as by TCP
		return redis.Dial("unix", running.Socket(), redis.DialReadTimeout(time.Minute))
	}
	s.conn = s.open(t)
	return s
}

// open returns a new connection that ends with the test.
func (s *server) open(t testing.TB) redis.Conn {
	t.Helper()
	conn, err := s.dial()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, conn.Close()) })
	return conn
}

// listen subscribes as the process "alive".
func (s *server) listen(t testing.TB) redis.Conn {
	t.Helper()
	conn := s.open(t)
	require.NoError(t, redis.PubSubConn{Conn: conn}.Subscribe(WakeChannel+"alive"))
	_, err := conn.Receive()
	require.NoError(t, err)
	return conn
}

// connect lets requests be sent.
func (s *server) connect(t testing.TB) {
	t.Helper()
	node, err := pipeline.NewNode(s.addr)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, node.Close()) })
	s.node = node
}

// An answer is what a call ended with.
type answer struct {
	reply any
	err   error
}

type answerSink chan answer

func (to answerSink) Complete(_ int, reply any, err error) { to <- answer{reply, err} }

// ask sends a request, and returns the reply, which the request has accepted.
func (s *server) ask(r pipeline.Request) any {
	s.t.Helper()
	to := make(answerSink, 1)
	r.Prove, r.Sink, r.Deadline = false, to, s.node.Clock().Now().Add(time.Minute)
	s.node.Do(pipeline.Call{Request: &r})
	got := <-to
	require.NoError(s.t, got.err)
	return got.reply
}

func (s *server) do(command string, args ...any) any {
	s.t.Helper()
	reply, err := s.conn.Do(command, args...)
	require.NoError(s.t, err, "%s %v", command, args)
	return reply
}

// soon sends a command with the next one, which fails if this one does.
func (s *server) soon(command string, args ...any) {
	s.t.Helper()
	require.NoError(s.t, s.conn.Send(command, args...))
}

// loaded has the scripts that ran, by their files.
var loaded sync.Map

func (s *server) run(keys []string, args []any, files ...string) (any, error) {
	name := strings.Join(files, " ")
	script, ok := loaded.Load(name)
	if !ok {
		script, _ = loaded.LoadOrStore(name, redis.NewScript(-1, code(files...)))
	}
	all := []any{len(keys)}
	for _, key := range keys {
		all = append(all, key)
	}
	return script.(*redis.Script).Do(s.conn, append(all, args...)...)
}

// eval is run where no error is expected.
func (s *server) eval(keys []string, args []any, files ...string) any {
	s.t.Helper()
	reply, err := s.run(keys, args, files...)
	require.NoError(s.t, err)
	return reply
}

// onA is eval for the lock "a".
func (s *server) onA(args []any, files ...string) any {
	s.t.Helper()
	return s.eval([]string{"a"}, args, files...)
}

// get returns the text of a key, "" if there is none.
func (s *server) get(key string) string {
	s.t.Helper()
	value, err := redis.String(s.conn.Do("GET", key))
	if err != nil && !errors.Is(err, redis.ErrNil) && !strings.HasPrefix(err.Error(), "WRONGTYPE") {
		require.NoError(s.t, err)
	}
	return value
}

// members returns those of a sorted set, in order.
func (s *server) members(key string) []string {
	s.t.Helper()
	members, err := redis.Strings(s.do("ZRANGE", key, 0, -1), nil)
	require.NoError(s.t, err)
	return members
}

// left returns how long a key lives, in milliseconds.
func (s *server) left(key string) int64 {
	s.t.Helper()
	return s.do("PTTL", key).(int64)
}

// now returns the server's time in microseconds.
func (s *server) now() int64 {
	s.t.Helper()
	now, err := redis.Int64s(s.do("TIME"), nil)
	require.NoError(s.t, err)
	return now[0]*1_000_000 + now[1]
}

// as does something as a user who may do all but what the rules forbid.
func (s *server) as(rules string, act func()) {
	s.t.Helper()
	all := []any{"SETUSER", "narrow", "reset", "on", "nopass", "+@all", "&*"}
	if !strings.Contains(rules, "~") {
		rules += " ~*"
	}
	for rule := range strings.FieldsSeq(rules) {
		all = append(all, rule)
	}
	s.do("ACL", all...)
	s.do("AUTH", "narrow", "")
	act()
	s.do("AUTH", "default", "")
}

// A pair is a server and, in the properties that use it, a model. Both get the same calls, and must
// answer the same and keep the same.
type pair struct {
	*server
	t *rapid.T
}

// check runs a property, each time on an empty server and with the process "alive" listening.
func check(t *testing.T, property func(p *pair)) {
	t.Helper()
	s := newServer(t)
	s.listen(t)
	s.connect(t)
	rapid.Check(t, func(t *rapid.T) {
		p := &pair{&server{t, s.addr, s.dial, s.conn, s.node}, t}
		p.do("FLUSHALL")
		property(p)
	})
}

// draw picks one of these.
func draw[T any](p *pair, label string, of ...T) T { return rapid.SampledFrom(of).Draw(p.t, label) }

func (p *pair) value() string          { return draw(p, "value", pairValues...) }
func (p *pair) flip(label string) bool { return rapid.Bool().Draw(p.t, label) }

// timestamp is near the server's clock, so that it is not clamped, and often the same. Counters are
// often ahead of it, in the future of model and server.
func (p *pair) timestamp() int64 {
	return p.now()/5_000_000*5_000_000 + rapid.Int64Range(-2, 2).Draw(p.t, "timestamp")
}

func (p *pair) fencing() Fencing { return Fencing{p.timestamp(), pairLife} }

// process is that of a caller, or none.
func (p *pair) process(value, label string) string {
	if p.flip(label) {
		return pairProcess(value)
	}
	return ""
}

// verdict compares the vote that a reply is with the model's.
func (p *pair) verdict(what string, meaning Meaning, reply any, want bool) {
	vote := quorum.Refused
	if want {
		vote = quorum.Granted
	}
	p.same(what, meaning.Vote(reply), vote)
}

// same compares what the server says or keeps with what the model does.
func (p *pair) same(what string, got, want any) {
	if text, ok := got.([]byte); ok {
		got = string(text)
	}
	if !assert.ObjectsAreEqual(want, got) {
		p.t.Fatalf("%s: the server has %#v, the model %#v", what, got, want)
	}
}

// inWords formats a reply: texts as they are, and milliseconds rounded to seconds.
func inWords(reply any) string {
	switch reply := reply.(type) {
	case []byte:
		return string(reply)
	case []any:
		var all []string
		for _, one := range reply {
			all = append(all, inWords(one))
		}
		return "[" + strings.Join(all, " ") + "]"
	case int64:
		if reply > 1000 {
			return fmt.Sprintf("%d s", (reply+500)/1000)
		}
	}
	return fmt.Sprint(reply)
}
