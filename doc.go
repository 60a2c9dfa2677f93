// Package redquorum is the root of a library for failover-safe mutual exclusion over N independent
// Redis masters, by the Redlock algorithm. It has no code of its own:
//
//   - [github.com/redquorum/redquorum/redlock] is the lock: begin here;
//   - [github.com/redquorum/redquorum/fence] checks fencing tokens at a resource;
//   - [github.com/redquorum/redquorum/election] elects one leader among many processes;
//   - [github.com/redquorum/redquorum/queue] is a delayed queue whose workers are kept apart by a
//     lock and a fence;
//   - [github.com/redquorum/redquorum/pool] is the connection to one master, for its options (TLS,
//     credentials, timeouts).
//
// redlock_test.go, beside this file, shows the promise as a whole, from outside: on real
// redis-servers that are stopped, killed, emptied and replaced.
package redquorum
