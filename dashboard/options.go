package dashboard

import (
	"net/http"
	"slices"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/queue"
)

// Option configures a Handler.
type Option func(*settings)

// settings say what a page shows, and to whom.
type settings struct {
	keyPrefix string
	maxTTL    time.Duration
	pool      []pool.Option
	query     admin.Query // about all locks
	login     func(r *http.Request) (user string, ok bool)
	hosts     []string
	force     bool
	queues    []shownQueue
}

var defaults = settings{maxTTL: time.Minute, query: admin.Query{Pattern: "*", Keys: 100_000, Locks: 20_000, Bound: listBound}}

// WithKeyPrefix shows the locks with this prefix, that of redlock.WithKeyPrefix.
func WithKeyPrefix(prefix string) Option { return func(s *settings) { s.keyPrefix = prefix } }

// WithMaxTTL sets the longest TTL of anyone who shares the masters, as redlock.WithMaxTTL does.
// Default: a minute.
func WithMaxTTL(d time.Duration) Option { return func(s *settings) { s.maxTTL = d } }

// WithPool sets options of the connections, such as TLS.
func WithPool(opts ...pool.Option) Option {
	return func(s *settings) { s.pool = slices.Concat(s.pool, opts) }
}

// WithBounds ends a look for locks at a master after about so many of its keys, or so many locks
// among them. The page then says that there may be more. Default: 100,000 keys, 20,000 locks.
func WithBounds(keys, locks int) Option {
	return func(s *settings) { s.query.Keys, s.query.Locks = keys, locks }
}

// WithHosts has browsers on this machine reach the page by further names than localhost, without a
// login. It is for proxies on the same machine.
func WithHosts(names ...string) Option { return func(s *settings) { s.hosts = names } }

// WithLogin sets who may make a request. The function returns the name of the user, and whether the
// request may be answered: a browser whose may not is asked for a name and a password. Without
// this option, only requests from the same machine are answered.
func WithLogin(login func(r *http.Request) (user string, ok bool)) Option {
	return func(s *settings) { s.login = login }
}

// WithQueue shows a delayed queue under a name: how many tasks it has, and its dead letters with
// their errors. With [WithForce], those who log in retry and drop these, under the lock of the
// queue. The Queue stays the caller's: close it after the Handler. May be repeated.
func WithQueue(name string, q *queue.Queue) Option {
	shown := shownQueue{name: name}
	if q != nil {
		shown.tasks = q
	}
	return func(s *settings) { s.queues = slices.Concat(s.queues, []shownQueue{shown}) }
}

// WithForce lets whoever logs in take locks away from their holders, and settle dead letters. The
// log of the masters tells who took a lock. It needs [WithLogin].
func WithForce() Option { return func(s *settings) { s.force = true } }
