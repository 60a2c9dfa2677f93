// Package survey asks the masters which locks they hold and in what state they are, and has the
// JSON, the orders and the sentences in which commands and the page tell it.
package survey
