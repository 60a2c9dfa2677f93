// Package interop tests that this library and redsync (github.com/go-redsync/redsync/v4), a widely
// used Redlock client, exclude each other on the same servers, with the same names, in both
// directions. So a service can move from one to the other while both are running. (The tests of
// contrib/redsync let many of both kinds contend for one name.) It also tests that redsync and
// go-redis take the masters of redlocktest for Redis. It is a module of its own, so that the
// library does not depend on them.
package interop
