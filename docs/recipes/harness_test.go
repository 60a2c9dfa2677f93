// Package recipes has the programs of docs/recipes.md. What stands between "recipe:begin" and
// "recipe:end" is shown there; a test in internal/proof/docs compares them.
package recipes

import (
	"time"

	"github.com/redquorum/redquorum/internal/proof/exampletest"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

// masters starts the five masters of an example, and returns a function that makes the Locker of
// one machine. Yours are made by redlock.New with redis://a:6379, redis://b:6379 and so on.
func masters() (c *redlocktest.Cluster, machine func(opts ...redlock.Option) *redlock.Locker, stop func()) {
	tb := new(exampletest.TB)
	c = redlocktest.Start(tb, 5)
	machine = func(opts ...redlock.Option) *redlock.Locker {
		patient := redlock.WithNodeTimeout(10 * time.Second) // for a busy test machine
		return c.Locker(tb, append(opts, patient)...)
	}
	return c, machine, tb.End
}
