package pool

import (
	"errors"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// isReply reports whether an error of redigo is the server's answer, and not the end of the
// connection.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// isAway reports whether a server says that it serves nobody at present, rather than what it thinks
// of the command.
func isAway(err error) bool {
	return slices.ContainsFunc([]string{"BUSY ", "LOADING ", "MASTERDOWN ", "MISCONF ", "NOAUTH ", "READONLY "}, func(code string) bool {
		return hasCode(err, code)
	})
}

func hasCode(err error, code string) bool {
	return err != nil && strings.HasPrefix(err.Error(), code)
}
