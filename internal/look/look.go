// Package look lets the other packages of this module look at masters without a part in what
// clients do for them.
package look

// Key opens redlock.OnlyLooks and Locker.Masters to the packages of this module. No other can name it, so that it is
// no part of the public API.
type Key struct{ _ byte }
