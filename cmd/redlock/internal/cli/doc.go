// Package cli is what the commands of redlock share: exit statuses, the errors that lead to them,
// and how results are written.
package cli
