// Package clients shows that programs which lock on one Redis run on the door of package resp
// unchanged: each of its tests is a client library in its own language, as Debian, npm or a Go
// module bring it. It has nothing but tests.
//
// In testdata, and in the module golang, is a program for each language. It is told by lines on its
// standard input what to do, and answers each with yes, no, or an error:
//
//	lock NAME MILLISECONDS
//	extend NAME MILLISECONDS
//	unlock NAME
//	steal NAME                 release it with another token, as a program does that lost its lock
//
// Two that people ask for are not among them: the locker of gocron for Redis is redsync with one
// pool, which is, and Debian has no gem that locks on Redis, so Ruby's client does it itself.
package clients
