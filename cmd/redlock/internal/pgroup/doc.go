// Package pgroup asks the kernel about process groups.
package pgroup
