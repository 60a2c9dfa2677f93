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

// WriteJSON writes a value as one indented JSON object.
func WriteJSON[T any](w io.Writer, value T) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
