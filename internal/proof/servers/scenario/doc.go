// Package scenario has the tests that accept the whole library from outside, on real servers that
// are stopped, killed, delayed, cut off, or replaced: one scenario for each promise, of what
// virtual time cannot show. Each file is about one kind of fault, or one kind of promise.
package scenario
