// Package fencesql refuses, in a SQL database, the late writes of a holder whose lock is no longer
// its own:
//
//	tx, err := db.BeginTx(ctx, nil)
//	if err != nil {
//		return err
//	}
//	defer tx.Rollback()
//	if err := fencesql.Check(ctx, tx, "account/42", lock.Fence()); err != nil {
//		return err // errors.Is(err, fence.ErrStale): somebody else has had the lock since
//	}
//	// read, write
//	return tx.Commit()
//
// The lock has redlock.WithFencing. A table of the database, which [Migrate] makes, remembers the
// largest token that was seen for each resource. Check compares the token with it, and remembers
// it, in the transaction that writes: both are committed or neither is. It is the rule of package
// fence, for PostgreSQL, MySQL, MariaDB (with InnoDB) and SQLite, through any driver of
// database/sql.
//
// # Check first
//
// Call Check before the transaction reads anything. From there on the row of the resource is locked
// until the transaction ends: transactions about one resource follow each other, at every isolation
// level. A transaction that has read before its Check may have read what another holder has
// replaced since, and the check cannot see that. A token counts once its transaction has committed:
// commit before you act on what was read, even if you only read.
//
// # Isolation
//
// Read committed (the default of PostgreSQL) and repeatable read of MySQL and MariaDB (theirs)
// need nothing else: a Check that meets another one waits, and then compares with what that left.
// At repeatable read and serializable PostgreSQL refuses the one that waited instead (SQLSTATE
// 40001, or 23505 if both are the first ever about a resource), SQLite says SQLITE_BUSY where a
// transaction began as a reader, and of two that are the first ever about a resource, MySQL may end
// one as a deadlock (error 1213). These errors are returned as they are. Nothing was accepted then,
// and the transaction can be repeated as a whole, as always at these levels.
package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redquorum/redquorum/fence"
)

// ErrStale is [fence.ErrStale]: a newer token has been seen, so another holder has had the lock
// since. Roll back.
var ErrStale = fence.ErrStale

// ErrInvalid is [fence.ErrInvalid]: the token is below 1, as that of a lock without fencing, or the
// resource is empty or too long.
var ErrInvalid = fence.ErrInvalid

// Schema makes the table, unless it is there. It is one statement, the same for every database, for
// those who keep their migrations in files. MySQL and MariaDB execute what stands in its comments:
// names are compared byte by byte, and the table has transactions.
const Schema = `CREATE TABLE IF NOT EXISTS redquorum_fence (
	resource VARCHAR(255) /*! CHARACTER SET ascii COLLATE ascii_bin */ NOT NULL PRIMARY KEY,
	written BIGINT NOT NULL,
	readers BIGINT NOT NULL,
	checks BIGINT NOT NULL
) /*! ENGINE=InnoDB */`

// Tx is a transaction: a [sql.Tx], or a type that embeds one. The rule holds only where the check
// and the write are committed together, so a [sql.DB], which cannot be rolled back, is none.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	Rollback() error
}

// Migrate makes the table with [Schema], unless it is there. Any number of processes may call it at
// once. The user needs the right to create tables, and afterwards only SELECT, INSERT and UPDATE.
func Migrate(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, Schema)
	if err == nil {
		return nil
	}
	// PostgreSQL lets only one of several make it at once, and a user may be allowed to use the
	// table and not to make one.
	var n int64
	if db.QueryRowContext(ctx, `SELECT count(checks) FROM redquorum_fence WHERE 1 = 0`).Scan(&n) == nil {
		return nil
	}
	return fmt.Errorf("fencesql: make the table: %w", err)
}

// Check returns nil, and remembers the token for the resource, if it is at least as large as every
// writer's token and larger than every reader's token (of [CheckRead]) that was remembered before.
// Otherwise it returns [ErrStale], with the tokens in the text, or [ErrInvalid]: the resource has 1
// to 255 bytes, of which each other than a-z, A-Z, 0-9 and -_./:@ counts threefold.
//
// Other errors are the database's: nothing was accepted, and the transaction must be rolled back.
//
// Nothing reminds a program that forgets to call Check: every transaction that writes the resource
// has to. A holder is not fenced against itself, so a write that it repeats may come after others
// with its token.
func Check(ctx context.Context, tx Tx, resource string, token int64) error {
	t := strconv.FormatInt(token, 10)
	return check(ctx, tx, resource, token, statements{
		set:    "written = " + t,
		where:  "written <= " + t + " AND readers < " + t,
		values: t + ", 0",
		stale:  func(written, readers int64) bool { return written > token || readers >= token },
	})
}

// CheckRead is [Check] for the holder of a shared lock (redlock.Locker.RLock), which only reads: it
// returns nil if the token is at least as large as every writer's. Writers with smaller tokens are
// refused from then on, so what was read is not changed any more by a holder from before. Readers
// may have equal tokens, and a smaller one is as good as a larger one.
func CheckRead(ctx context.Context, tx Tx, resource string, token int64) error {
	t := strconv.FormatInt(token, 10)
	return check(ctx, tx, resource, token, statements{
		set:    "readers = CASE WHEN readers < " + t + " THEN " + t + " ELSE readers END",
		where:  "written <= " + t,
		values: "0, " + t,
		stale:  func(written, _ int64) bool { return written > token },
	})
}

// statements has the parts in which a writer and a reader differ. They have numbers and no text of
// a caller.
type statements struct {
	set, where string                            // of UPDATE
	values     string                            // written and readers of a first row
	stale      func(written, readers int64) bool // not where
}

// attempts bounds how often a row is looked for: again because another transaction has just made
// it. No row is ever deleted, and what it has only grows.
const attempts = 3

// check is one UPDATE where the resource is known and the token is not stale. Comparing, setting
// and locking the row are one step in each of the databases, whatever snapshot a transaction reads
// from.
//
// No statement has placeholders: databases write them differently, and several drivers prepare a
// statement that has some, at the cost of a round trip. The name is a literal in letters that no
// database and no encoding reads in another way ([quoted]).
func check(ctx context.Context, tx Tx, resource string, token int64, s statements) error {
	name, err := quoted(resource, token)
	if err != nil {
		return err
	}
	failed := errors.New("its row comes and goes") // or the last insert
	for range attempts {
		// A row that is set to what it has counts for MySQL as one that was not updated: checks
		// always changes.
		n, err := affected(tx.ExecContext(ctx,
			`UPDATE redquorum_fence SET `+s.set+`, checks = checks + 1 WHERE resource = `+name+` AND `+s.where))
		if err != nil {
			return fmt.Errorf("fencesql: check %q: %w", resource, err)
		}
		if n > 0 {
			return nil
		}
		var written, readers int64
		// MySQL would look for the row in the snapshot of the transaction without FOR UPDATE.
		err = tx.QueryRowContext(ctx,
			`SELECT written, readers FROM redquorum_fence WHERE resource = `+name+` /*! FOR UPDATE */`,
		).Scan(&written, &readers)
		switch {
		case err == nil && !s.stale(written, readers):
			continue // it was committed between the two statements
		case err == nil:
			return fmt.Errorf("fencesql: %q with token %d, after a writer's %d and a reader's %d: %w",
				resource, token, written, readers, ErrStale)
		case !errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("fencesql: check %q: %w", resource, err)
		}
		again, err := insert(ctx, tx, name, s.values)
		if err == nil {
			return nil
		}
		failed = err
		if !again {
			break
		}
	}
	return fmt.Errorf("fencesql: first check of %q: %w", resource, failed)
}

// insert makes the row of a resource. If another transaction is making it, this waits for the end
// of that one, and fails if it has committed: again says that the transaction can look anew. A
// savepoint keeps it usable: PostgreSQL would refuse everything else in it.
//
// An error that has ended the whole transaction takes the savepoint with it (a deadlock, in MySQL).
// To try again would be fatal then, because MySQL would commit each further statement by itself: so
// only a rollback to the savepoint that succeeds lets the caller look again.
func insert(ctx context.Context, tx Tx, name, values string) (again bool, err error) {
	if _, err := tx.ExecContext(ctx, `SAVEPOINT redquorum_fence`); err != nil {
		return false, err
	}
	_, err = tx.ExecContext(ctx,
		`INSERT INTO redquorum_fence (resource, written, readers, checks) VALUES (`+name+`, `+values+`, 1)`)
	if err == nil {
		_, err = tx.ExecContext(ctx, `RELEASE SAVEPOINT redquorum_fence`)
		return false, err
	}
	if _, rollback := tx.ExecContext(ctx, `ROLLBACK TO SAVEPOINT redquorum_fence`); rollback != nil {
		return false, err
	}
	if _, release := tx.ExecContext(ctx, `RELEASE SAVEPOINT redquorum_fence`); release != nil {
		return false, err
	}
	return true, err
}

func affected(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// maxName is the width of the column.
const maxName = 255

// quoted returns the resource as a literal. Each byte that a database might fold, pad, decode or
// take for the end of the literal is a percent sign and two digits, as in a URL. So different
// resources have different names, and no text ends the literal.
func quoted(resource string, token int64) (string, error) {
	if token < 1 {
		return "", fmt.Errorf("fencesql: token %d: %w", token, ErrInvalid)
	}
	var name strings.Builder
	for _, b := range []byte(resource) {
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', strings.IndexByte("-_./:@", b) >= 0:
			name.WriteByte(b)
		default:
			fmt.Fprintf(&name, "%%%02X", b)
		}
	}
	if resource == "" || name.Len() > maxName {
		return "", fmt.Errorf("fencesql: a resource of %d bytes, as a name %d of at most %d: %w",
			len(resource), name.Len(), maxName, ErrInvalid)
	}
	return "'" + name.String() + "'", nil
}
