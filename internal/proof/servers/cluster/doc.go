// Package cluster starts the masters of a test or benchmark, real ones ([Start]) and embedded ones
// ([StartEmbedded]), and the Lockers on them. Each ends with its test.
package cluster
