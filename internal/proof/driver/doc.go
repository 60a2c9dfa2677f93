// Package driver drives the public API as programs may: every call, option and ending at once, on
// few names, beside faults that a seed chooses, and judges by the documentation alone. Each check
// belongs to a sentence of a doc comment that promises something ([TestPromises] has the table). It
// imports nothing of the library that a program could not.
//
// A history has a storm, in which actors call what they like while masters break; a calm, in which
// all faults end and the calls under way end; a quiet moment, in which nothing is under way and the
// masters must show just what is held; and an end, after which nothing may be left.
//
//	REDQUORUM_HISTORIES=100000 go test -v -run TestHistories ./internal/proof/driver
//	REDQUORUM_SEED=17 go test -v -run TestHistories ./internal/proof/driver
package driver
