package election

import (
	"github.com/redquorum/redquorum/internal/owner"
	"github.com/redquorum/redquorum/redlock"
)

// Option configures an [Election].
type Option func(*config) error

// config holds the options of an Election.
type config struct {
	id   string
	lock []redlock.LockOption
}

// maxID is the limit of an owner in package redlock.
const maxID = owner.Most

func newConfig(opts []Option) (config, error) {
	c := config{id: owner.Process()}
	for i, opt := range opts {
		if opt == nil {
			return config{}, invalid("option %d is nil", i+1)
		}
		if err := opt(&c); err != nil {
			return config{}, err
		}
	}
	return c, nil
}

// WithID sets the text by which others know this candidate ([Leader.ID]): 1 to 256 bytes; the
// default is user@host:pid and the name of the program. It need not be unique: terms tell leaders
// apart. It is stored as the owner of the lock ([redlock.WithOwner]).
func WithID(text string) Option {
	return func(c *config) error {
		if text == "" || len(text) > maxID {
			return invalid("id has %d bytes, not 1 to %d", len(text), maxID)
		}
		c.id = text
		return nil
	}
}

// WithLockOptions sets options of the lock behind the leadership, such as [redlock.WithTTL]: after
// a crash, others wait for as long. All candidates of a name should have the same. With
// [redlock.WithMaxHold] a term ends after that time; with [redlock.WithoutRenewal] it ends after
// the TTL. [WithID] replaces [redlock.WithOwner].
func WithLockOptions(opts ...redlock.LockOption) Option {
	return func(c *config) error {
		c.lock = append(c.lock, opts...)
		return nil
	}
}
