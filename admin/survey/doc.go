// Package survey says what masters told an operator as the command redlock and its page do: in
// their JSON, their orders and their sentences. The help of the commands has the fields of the
// JSON; the sentences may change.
package survey
