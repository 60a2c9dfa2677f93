package cli

import (
	"encoding/json"
	"fmt"
	"io"
)

// Plural returns a number with a noun: "1 master", "3 masters".
func Plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Needed says of how many there must be: 1 is needed, 2 are needed.
func Needed(n int) string {
	if n == 1 {
		return "1 is needed"
	}
	return fmt.Sprintf("%d are needed", n)
}

// Votes says how many masters vote: 1 of 3 masters votes, 2 are needed.
func Votes(votes, masters, need int) string {
	vote := "vote"
	if votes == 1 || masters == 1 {
		vote = "votes"
	}
	return fmt.Sprintf("%d of %s %s, %s", votes, Plural(masters, "master"), vote, Needed(need))
}

// WriteJSON writes a value as one indented JSON object.
func WriteJSON[T any](w io.Writer, value T) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
