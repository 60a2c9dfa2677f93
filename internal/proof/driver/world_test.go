package driver_test

import (
	"context"
	"net"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// world is masters, and the time in which a history passes.
type world struct {
	clock     clock.Clock
	endpoints []string
	masters   []master
	dial      []pool.Option    // by which masters and store are reached
	connect   connect          // to a master, in virtual time
	options   []redlock.Option // of a Locker
	store     string           // the endpoint of a queue's
	command   command          // to the store, by others
	slack     time.Duration    // by which a call may exceed its bound
	look      bool             // it takes no time to look into a master
}

// command sends a command on a connection of its own. Errors are returned as they are.
type command func(name string, args ...any) (any, error)

// connect connects to a master.
type connect func(ctx context.Context, network, address string) (net.Conn, error)

// master is one Redis master, with its faults.
type master interface {
	// get returns the string at a key, and its time to live.
	get(key string) (value string, ttl time.Duration, found bool)
	// members returns those of a sorted set, for people.
	members(key string) []string
	// keys returns all keys.
	keys() []string
	// do sends a command on a connection of its own. Errors are returned as they are.
	do(name string, args ...any) (any, error)
	// connections counts those that are open.
	connections() int
	// breaks lets a fault begin; the caller ends it.
	breaks(fault string, much int) (heal func())
}
