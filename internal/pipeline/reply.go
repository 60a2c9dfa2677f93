package pipeline

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/redquorum/redquorum/internal/trouble"
)

// isReply reports whether an error of redigo is the server's reply, rather than the end of the
// connection.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// isAway reports whether an error says that the server currently serves nobody, rather than
// something about the command.
func isAway(err error) bool {
	state := trouble.StateOf(err)
	return state != "" && state != trouble.Full && state != trouble.NoScripts
}

func hasCode(err error, code string) bool {
	return err != nil && strings.HasPrefix(err.Error(), code)
}

// connectionLost says that a connection ended, in words for people.
func connectionLost(err error) error {
	if errors.Is(err, io.EOF) {
		return trouble.Mark(trouble.Ended, fmt.Errorf("connection closed by the server: %w", err))
	}
	return fmt.Errorf("connection lost: %w", err)
}
