package serve

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
)

const (
	// shortestPassword cannot be guessed at the rate below.
	shortestPassword = 12

	// refusalPause is how long a wrong password waits for its answer, and takes one of so many
	// guesses: no more than guesses/refusalPause can be tried in all.
	refusalPause = time.Second
	guesses      = 8

	mostLogins = 64 << 10 // bytes
)

// login is a line of the file. Its hash has one size, so a comparison tells nothing of the text.
type login struct {
	user string // empty: any
	hash [sha256.Size]byte
}

// logins are those who may.
type logins struct {
	all      []login
	guessing chan struct{} // has room for the guesses of a refusalPause
}

// logins returns those of the file; nil if nobody needs one.
func (f *flags) logins(cmd *cobra.Command) (*logins, error) {
	switch {
	case f.loginFile != "":
		file, err := os.Open(f.loginFile)
		if err != nil {
			return nil, cli.Usagef("--login-file: %w", err)
		}
		text, err := io.ReadAll(io.LimitReader(file, mostLogins))
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, cli.Usagef("--login-file: %w", err)
		}
		return parseLogins(text)
	case f.allowForce:
		password := rand.Text()
		cmd.PrintErrf("redlock: log in with any user name and the password %s\n", password)
		return parseLogins([]byte(password))
	default:
		return nil, nil
	}
}

// parseLogins reads lines of USER:PASSWORD or PASSWORD. Lines that begin with # are comments.
func parseLogins(text []byte) (*logins, error) {
	l := &logins{guessing: make(chan struct{}, guesses)}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		user, password, named := strings.Cut(line, ":")
		if !named {
			user, password = "", line
		}
		if len(password) < shortestPassword || named && user == "" {
			return nil, cli.Usagef("--login-file, line %d: give USER:PASSWORD or PASSWORD, of %d characters at least", n, shortestPassword)
		}
		l.all = append(l.all, login{user, sha256.Sum256([]byte(password))})
	}
	if err := lines.Err(); err != nil || len(l.all) == 0 {
		return nil, cli.Usagef("--login-file: %w", cmp.Or(err, errNobody))
	}
	return l, nil
}

var errNobody = errors.New("nobody is in it")

// of returns the name of who makes a request, and whether the password is right.
func (l *logins) of(r *http.Request) (user string, ok bool) {
	user, password, given := r.BasicAuth()
	if token, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); is {
		user, password, given = "", token, true
	}
	if !given || !l.check(r.Context(), user, password) {
		return "", false
	}
	return cmp.Or(user, "somebody with the password"), true
}

// check reports whether a password is right. A wrong one waits.
//
// A password is compared only by who has one of the guesses, and a wrong one keeps it for the whole
// pause: to hang up brings no further guess, only the loss of the answer. While others guess, a
// right one has to wait for its turn as well, or its haste would tell it from the wrong ones.
func (l *logins) check(ctx context.Context, user, password string) bool {
	select {
	case l.guessing <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if l.isRight(user, password) {
		<-l.guessing
		return true
	}
	refused := make(chan struct{})
	time.AfterFunc(refusalPause, func() {
		<-l.guessing
		close(refused)
	})
	select {
	case <-refused:
	case <-ctx.Done():
	}
	return false
}

// isRight compares with all logins, so that the time it takes tells nothing.
func (l *logins) isRight(user, password string) bool {
	hash, right := sha256.Sum256([]byte(password)), 0
	for _, one := range l.all {
		if one.user == "" || one.user == user {
			right |= subtle.ConstantTimeCompare(hash[:], one.hash[:])
		}
	}
	return right == 1
}
