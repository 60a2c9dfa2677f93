//go:build unix

package fencesql_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/contrib/fencesql"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

// ttl is the time to live of the holders' locks. They are stopped for longer.
const ttl = 150 * time.Millisecond

// Two processes take turns with a lock, and one of them is stopped at a random moment for longer
// than its lock lives: before its check, within its transaction, or behind it. It goes on as if
// nothing had happened. FENCESQL_STOPS says how often (default: 12).
func TestAHolderThatWasStoppedWritesNothingLate(t *testing.T) {
	stops := 12
	if n, err := strconv.Atoi(os.Getenv("FENCESQL_STOPS")); err == nil {
		stops = n
	}
	eachDatabase(t, func(t *testing.T, d database, db *sql.DB) {
		for _, statement := range []string{
			`DROP TABLE IF EXISTS account`, `CREATE TABLE account (balance BIGINT)`, `INSERT INTO account VALUES (0)`,
			`DROP TABLE IF EXISTS written`, `CREATE TABLE written (balance BIGINT, token BIGINT)`,
		} {
			_, err := db.Exec(statement)
			require.NoError(t, err)
		}
		masters := redlocktest.Start(t, 3)
		holders := []*holder{startHolder(t, d, masters), startHolder(t, d, masters)}
		refusals := func() int64 { return holders[0].refusals.Load() + holders[1].refusals.Load() }
		done := 0
		for ; done < stops || refusals() == 0 && done < 20*stops; done++ {
			victim := holders[rand.IntN(len(holders))]
			time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
			require.NoError(t, victim.cmd.Process.Signal(syscall.SIGSTOP))
			time.Sleep(ttl + time.Duration(rand.IntN(100))*time.Millisecond)
			require.NoError(t, victim.cmd.Process.Signal(syscall.SIGCONT))
		}
		accepted, refused := map[int64]int{}, []int64{}
		for _, h := range holders {
			a, r := h.end(t)
			for _, token := range a {
				accepted[token]++
			}
			refused = append(refused, r...)
		}
		newest := judge(t, db, accepted)
		for _, token := range refused {
			require.Less(t, token, newest, "a token was refused that no newer one had overtaken")
		}
		require.NotEmpty(t, refused, "no write came late: the test shows nothing")
		t.Logf("%d stops: %d writes accepted, %d refused", done, len(accepted), len(refused))
	})
}

// judge compares what the holders were told with what the database has: every write that was
// accepted, none else, each on top of the one before, in the order of their tokens.
func judge(t *testing.T, db *sql.DB, accepted map[int64]int) (newest int64) {
	rows, err := db.Query(`SELECT balance, token FROM written ORDER BY balance`)
	require.NoError(t, err)
	defer rows.Close()
	n := int64(0)
	for rows.Next() {
		var balance, token int64
		require.NoError(t, rows.Scan(&balance, &token))
		n++
		require.Equal(t, n, balance, "two writes are built on the same one")
		require.Greater(t, token, newest, "a late write was accepted")
		newest = token
		require.Equal(t, 1, accepted[token])
	}
	require.NoError(t, rows.Err())
	require.Len(t, accepted, int(n))
	var balance int64
	require.NoError(t, db.QueryRow(`SELECT balance FROM account`).Scan(&balance))
	require.Equal(t, n, balance)
	return newest
}

// holder is a process that locks, checks and writes until its standard input ends.
type holder struct {
	cmd   *exec.Cmd
	stdin interface{ Close() error }
	lines chan string

	refusals atomic.Int64 // so far
}

func startHolder(t *testing.T, d database, masters *redlocktest.Cluster) *holder {
	self, err := os.Executable()
	require.NoError(t, err)
	h := &holder{cmd: exec.Command(self), lines: make(chan string, 1<<16)}
	h.cmd.Env = append(os.Environ(), "FENCESQL_HOLDER="+strings.Join(masters.Endpoints(), ","),
		"FENCESQL_DRIVER="+d.driver, "FENCESQL_DSN="+d.dsn)
	h.cmd.Stderr = os.Stderr
	h.stdin, err = h.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := h.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, h.cmd.Start())
	t.Cleanup(func() { _ = h.cmd.Process.Kill() })
	go func() {
		defer close(h.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			if strings.HasPrefix(scan.Text(), "refused") {
				h.refusals.Add(1)
			}
			h.lines <- scan.Text()
		}
	}()
	return h
}

// end lets the process end. It returns the tokens with which it wrote, and those that were refused.
func (h *holder) end(t *testing.T) (accepted, refused []int64) {
	require.NoError(t, h.stdin.Close())
	for line := range h.lines {
		word, number, _ := strings.Cut(line, " ")
		token, err := strconv.ParseInt(number, 10, 64)
		require.NoError(t, err, line)
		if word == "wrote" {
			accepted = append(accepted, token)
		} else {
			refused = append(refused, token)
		}
	}
	require.NoError(t, h.cmd.Wait())
	return accepted, refused
}

// hold is the program of a holder.
func hold() error {
	db, err := sql.Open(os.Getenv("FENCESQL_DRIVER"), os.Getenv("FENCESQL_DSN"))
	if err != nil {
		return err
	}
	defer db.Close()
	locker, err := redlock.New(strings.Split(os.Getenv("FENCESQL_HOLDER"), ","))
	if err != nil {
		return err
	}
	defer locker.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the test closes it
		cancel()
	}()
	for {
		lock, err := locker.Lock(ctx, "account", redlock.WithFencing(), redlock.WithTTL(ttl))
		if ctx.Err() != nil {
			if err == nil {
				err = lock.Unlock(context.Background())
			}
			return ignore(err, context.Canceled)
		} else if err != nil {
			if err := ignore(err); err != nil {
				return err
			}
			continue
		}
		pause := func() { time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) }
		pause()
		switch err := write(db, lock.Fence(), pause); {
		case err == nil:
			fmt.Println("wrote", lock.Fence())
		case errors.Is(err, fencesql.ErrStale):
			fmt.Println("refused", lock.Fence())
		default:
			return err
		}
		if err := ignore(lock.Unlock(context.Background())); err != nil {
			return err
		}
	}
}

// ignore leaves out what a stop brings: a lock that was lost, answers that came too late.
func ignore(err error, also ...error) error {
	for _, w := range append(also, redlock.ErrLost, redlock.ErrNoQuorum, redlock.ErrNoValidity) {
		if errors.Is(err, w) {
			return nil
		}
	}
	return err
}

// write adds one to the balance, as a program does that trusts nothing but the check.
func write(db *sql.DB, token int64, pause func()) error {
	return inTx(db, func(tx *sql.Tx) error {
		ctx := context.Background()
		if err := fencesql.Check(ctx, tx, "account/42", token); err != nil {
			return err
		}
		pause()
		var balance int64
		if err := tx.QueryRowContext(ctx, `SELECT balance FROM account`).Scan(&balance); err != nil {
			return err
		}
		pause()
		if _, err := tx.ExecContext(ctx, fmt.Sprintf(`UPDATE account SET balance = %d`, balance+1)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf(`INSERT INTO written VALUES (%d, %d)`, balance+1, token))
		return err
	})
}
