// Package recipes has the programs of docs/recipes.md. What stands between "recipe:begin" and
// "recipe:end" is shown there; a test in internal/proof/docs compares them.
package recipes

import (
	"context"
	"time"

	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

// masters starts the five masters of an example, and returns a function that makes the Locker of
// one machine. Yours are made by redlock.New with redis://a:6379, redis://b:6379 and so on.
func masters() (c *redlocktest.Cluster, machine func(opts ...redlock.Option) *redlock.Locker, stop func()) {
	c, end := redlocktest.Masters(5)
	var lockers []*redlock.Locker
	machine = func(opts ...redlock.Option) *redlock.Locker {
		patient := redlock.WithNodeTimeout(10 * time.Second) // for a busy test machine
		l, err := redlock.New(c.Endpoints(), append(opts, patient)...)
		if err == nil {
			err = l.Ready(context.Background())
		}
		if err != nil {
			panic(err)
		}
		lockers = append(lockers, l)
		return l
	}
	return c, machine, func() {
		for _, l := range lockers {
			_ = l.Close() // a master may be away
		}
		end()
	}
}
