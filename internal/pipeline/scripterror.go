package pipeline

import (
	"errors"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Redis before 7 wraps the error of a command within a script:
//
//	ERR Error running script (call to f_<digest>): @user_script:1: @user_script: 1: -READONLY You can't ...
const (
	scriptErrorPrefix = "ERR Error running script "
	scriptErrorPlace  = "@user_script:"
)

// unwrapped returns an error reply in the form of Redis 7: it begins with the code of the command
// that failed within the script. An error without such a code, such as one of Lua's own, stays as
// it is.
func unwrapped(err error) error {
	if err == nil { // words escapes to the heap, which would cost every reply an allocation
		return nil
	}
	var words redis.Error
	ok := errors.As(err, &words)
	if !ok || !strings.HasPrefix(string(words), scriptErrorPrefix) {
		return err
	}
	text := string(words)
	at := strings.LastIndex(text, scriptErrorPlace)
	if at < 0 {
		return err
	}
	_, inner, _ := strings.Cut(text[at+len(scriptErrorPlace):], ": ")
	inner = strings.TrimPrefix(inner, "-")
	code, _, _ := strings.Cut(inner, " ")
	if code == "" || strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return err
	}
	return redis.Error(inner)
}
