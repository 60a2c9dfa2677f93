// Package pgroup asks the kernel about process groups and descendants.
package pgroup
