// Package scenario has the tests that accept the whole library from outside: on embedded masters,
// and on real servers that are stopped, killed, delayed, cut off, or replaced by servers that
// answer nonsense. Each file is about one kind of fault, or one promise.
package scenario
