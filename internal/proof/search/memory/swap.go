package memory

import "fmt"

// Swap is the script that makes every change of a marker. It returns the text of the marker that it
// leaves behind. It writes if the text is the expected one and the node's time now has reached due.
// A wait of 0 then writes "write rest", and any other one "write until T rest" with T = now + wait.
// A write of "" only reads. The text of an absent marker is "". All times are milliseconds since
// 1970 by the node's clock.
func Swap(text, expected, write, rest string, wait, due, now int64) string {
	if write == "" || text != expected || now < due {
		return text
	}
	if wait == 0 {
		return write + " " + rest
	}
	return fmt.Sprintf("%s until %d %s", write, now+wait, rest)
}
