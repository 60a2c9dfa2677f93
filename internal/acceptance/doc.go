// Package acceptance holds the tests that accept the whole library from outside: on embedded masters
// and on real servers that are stopped, killed, delayed, cut off and replaced by servers that talk
// nonsense. Each file is about one kind of fault, or one promise.
package acceptance
