//go:build unix

package fencesql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/contrib/fencesql"
	"github.com/redquorum/redquorum/fence"
	"github.com/redquorum/redquorum/internal/proof/docs"
)

// Package fence has the rule. What a transaction that was rolled back has shown counts for nothing.
func TestWritersAndReadersAreAdmittedAsByAnRWGate(t *testing.T) {
	eachDatabase(t, func(t *testing.T, _ database, db *sql.DB) {
		var gate fence.RWGate
		random := rand.New(rand.NewPCG(1, 2))
		stale := 0
		for range 300 {
			token, reads, undone := 1+random.Int64N(20)+int64(stale)/10, random.IntN(2) == 0, random.IntN(4) == 0
			check, admit := fencesql.Check, gate.AdmitWrite
			if reads {
				check, admit = fencesql.CheckRead, gate.AdmitRead
			}
			if undone {
				write, read := gate.Newest()
				var copied fence.RWGate
				require.NoError(t, copied.Restore(write, read))
				admit = copied.AdmitWrite
				if reads {
					admit = copied.AdmitRead
				}
			}
			tx := begin(t, db, sql.LevelDefault)
			got, want := check(t.Context(), tx, "account/42", token), admit(token)
			require.Equal(t, want == nil, got == nil, "token %d, reads %t: %v", token, reads, got)
			if got != nil {
				require.ErrorIs(t, got, fence.ErrStale)
				stale++
			}
			if undone || got != nil {
				require.NoError(t, tx.Rollback())
			} else {
				require.NoError(t, tx.Commit())
			}
		}
		require.NotZero(t, stale)
	})
}

func TestAnErrorTellsTheTokens(t *testing.T) {
	eachDatabase(t, func(t *testing.T, _ database, db *sql.DB) {
		require.NoError(t, inTx(db, func(tx *sql.Tx) error { return fencesql.Check(t.Context(), tx, "a", 7) }))
		require.NoError(t, inTx(db, func(tx *sql.Tx) error { return fencesql.CheckRead(t.Context(), tx, "a", 9) }))
		err := inTx(db, func(tx *sql.Tx) error { return fencesql.Check(t.Context(), tx, "a", 8) })
		require.EqualError(t, err,
			`fencesql: "a" with token 8, after a writer's 7 and a reader's 9: fence: a newer token has been seen`)
	})
}

// Databases fold letters, pad with blanks, decode and unescape.
func TestResourcesAreToldApart(t *testing.T) {
	resources := []string{
		"a", "A", "a ", " a", "a\x00", "ä", "a\u0308", "é", "e", "%41", "a%", "a'", `a\`, `a\'`, "a''",
		`a"; DROP TABLE redquorum_fence; --`, "'; DROP TABLE redquorum_fence; --", "?", "$1", ":a", "@a", "/* a */",
		strings.Repeat("x", 254), strings.Repeat("x", 255), "\xff", "\xfe", "ß", "ss", "🔒",
	}
	eachDatabase(t, func(t *testing.T, _ database, db *sql.DB) {
		for i, resource := range resources {
			for _, token := range []int64{int64(1000 - i), int64(1000 - i), int64(2000 - i)} {
				require.NoError(t, inTx(db, func(tx *sql.Tx) error {
					return fencesql.Check(t.Context(), tx, resource, token)
				}), "%q", resource)
			}
		}
		for i, resource := range resources {
			require.ErrorIs(t, inTx(db, func(tx *sql.Tx) error {
				return fencesql.Check(t.Context(), tx, resource, int64(2000-i-1))
			}), fencesql.ErrStale, "%q", resource)
		}
	})
}

func TestArgumentsAreChecked(t *testing.T) {
	eachDatabase(t, func(t *testing.T, _ database, db *sql.DB) {
		for _, bad := range []struct {
			resource string
			token    int64
		}{{"a", 0}, {"a", -1}, {"", 1}, {strings.Repeat("a", 256), 1}, {strings.Repeat("ä", 43), 1}} {
			for _, check := range []func(context.Context, fencesql.Tx, string, int64) error{fencesql.Check, fencesql.CheckRead} {
				require.ErrorIs(t, inTx(db, func(tx *sql.Tx) error {
					return check(t.Context(), tx, bad.resource, bad.token)
				}), fencesql.ErrInvalid)
			}
		}
		require.NoError(t, inTx(db, func(tx *sql.Tx) error {
			return fencesql.Check(t.Context(), tx, strings.Repeat("ä", 42), 1<<53)
		}))
	})
}

func TestManyMayMigrateAtOnceAndAgain(t *testing.T) {
	eachDatabase(t, func(t *testing.T, _ database, db *sql.DB) {
		for range 10 {
			_, err := db.Exec(`DROP TABLE IF EXISTS redquorum_fence`)
			require.NoError(t, err)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() { assert.NoError(t, fencesql.Migrate(t.Context(), db)) })
			}
			all.Wait()
		}
		require.NoError(t, fencesql.Migrate(t.Context(), db))
	})
}

// Migrations often run as another user.
func TestAProgramNeedsNoRightToMakeTables(t *testing.T) {
	d := postgres(t)
	db := d.open(t)
	require.NoError(t, fencesql.Migrate(t.Context(), db))
	for _, statement := range []string{
		`DROP OWNED BY app`, `DROP ROLE app`, `CREATE ROLE app LOGIN`, `GRANT SELECT, INSERT, UPDATE ON redquorum_fence TO app`,
	} {
		_, err := db.Exec(statement)
		require.True(t, err == nil || strings.HasPrefix(statement, "DROP"), err)
	}
	app := database{d.driver, strings.Replace(d.dsn, "user=postgres", "user=app", 1)}.open(t)
	_, err := app.Exec(`CREATE TABLE other (a BIGINT)`)
	require.ErrorContains(t, err, "permission denied")
	require.NoError(t, fencesql.Migrate(t.Context(), app))
	for token := range int64(2) {
		require.NoError(t, inTx(app, func(tx *sql.Tx) error { return fencesql.Check(t.Context(), tx, "app", 1+token) }))
	}
}

func TestWithoutTheTableACheckSaysSo(t *testing.T) {
	eachDatabase(t, func(t *testing.T, _ database, db *sql.DB) {
		_, err := db.Exec(`DROP TABLE redquorum_fence`)
		require.NoError(t, err)
		err = inTx(db, func(tx *sql.Tx) error { return fencesql.Check(t.Context(), tx, "a", 1) })
		require.ErrorContains(t, err, "redquorum_fence")
		require.NotErrorIs(t, err, fencesql.ErrStale)
	})
}

// Two transactions are open at once, with every order of their tokens, at every level, for a
// resource that is known and for one that is not. Whatever a database makes of them: what was
// committed was committed in the order of tokens, and each error other than ErrStale is one of the
// database, after which the transaction passes when it is repeated.
func TestOfTwoWritersAtOnceNoneIsAcceptedLate(t *testing.T) {
	all := []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
	eachDatabase(t, func(t *testing.T, d database, db *sql.DB) {
		levels := all
		if d.driver == "sqlite" {
			levels = []sql.IsolationLevel{sql.LevelDefault} // it has one
		}
		_, err := db.Exec(`DROP TABLE IF EXISTS journal`)
		require.NoError(t, err)
		_, err = db.Exec(`CREATE TABLE journal (resource VARCHAR(99), place BIGINT, token BIGINT)`)
		require.NoError(t, err)
		for _, level := range levels {
			for _, known := range []bool{false, true} {
				for i, tokens := range [][2]int64{{5, 7}, {7, 5}, {6, 6}} {
					resource := fmt.Sprintf("%d/%t/%d", level, known, i)
					if known {
						require.NoError(t, inTx(db, func(tx *sql.Tx) error {
							return fencesql.Check(t.Context(), tx, resource, 1)
						}))
					}
					twoAtOnce(t, db, level, resource, tokens)
				}
			}
		}
	})
}

// interrupted lets others in before the statement that looks.
type interrupted struct {
	*sql.Tx
	others func()
}

func (tx interrupted) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	tx.others()
	return tx.Tx.QueryRowContext(ctx, query, args...)
}

// Where each statement sees what was committed before it, the first row of a resource may come
// between two statements of a check.
func TestARowThatComesMeanwhileIsNotTakenForANewerOne(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database, db *sql.DB) {
		if d.driver == "sqlite" {
			t.Skip("it lets nobody write between two statements of a transaction")
		}
		for name, c := range map[string]struct {
			other int64
			check func(context.Context, fencesql.Tx, string, int64) error
			want  error
		}{
			"older":         {5, fencesql.Check, nil},
			"same":          {7, fencesql.Check, nil},
			"newer":         {9, fencesql.Check, fencesql.ErrStale},
			"older, reader": {5, fencesql.CheckRead, nil},
			"newer, reader": {9, fencesql.CheckRead, fencesql.ErrStale},
		} {
			once := sync.OnceFunc(func() {
				err := inTx(db, func(tx *sql.Tx) error { return fencesql.Check(t.Context(), tx, name, c.other) })
				assert.NoError(t, err)
			})
			tx := begin(t, db, sql.LevelReadCommitted)
			err := c.check(t.Context(), interrupted{tx, once}, name, 7)
			require.Equal(t, c.want == nil, err == nil, "%s: %v", name, err)
			require.ErrorIs(t, err, c.want)
			require.NoError(t, tx.Rollback())
		}
	})
}

// twoAtOnce has two writers, and the second begins while the first has checked and not committed.
func twoAtOnce(t *testing.T, db *sql.DB, level sql.IsolationLevel, resource string, tokens [2]int64) {
	checked, second := make(chan struct{}), make(chan error, 1)
	go func() {
		<-checked
		second <- writeUntilDecided(db, level, resource, tokens[1], nil)
	}()
	first := writeUntilDecided(db, level, resource, tokens[0], func() { close(checked) })
	require.NoError(t, first, resource)
	if err := <-second; tokens[1] < tokens[0] {
		require.ErrorIs(t, err, fencesql.ErrStale, resource)
	} else {
		require.NoError(t, err, resource)
	}
	rows, err := db.Query(`SELECT token FROM journal WHERE resource = '` + resource + `' ORDER BY place`)
	require.NoError(t, err)
	defer rows.Close()
	last := int64(0)
	for rows.Next() {
		var token int64
		require.NoError(t, rows.Scan(&token))
		require.GreaterOrEqual(t, token, last, resource)
		last = token
	}
	require.NoError(t, rows.Err())
}

// writeUntilDecided writes one row of the journal behind those that it reads, and repeats the
// transaction while the database refuses it for a reason of its own.
func writeUntilDecided(db *sql.DB, level sql.IsolationLevel, resource string, token int64, checked func()) error {
	var err error
	for range 20 {
		err = atLevel(db, level, func(tx *sql.Tx) error {
			ctx := context.Background()
			if err := fencesql.Check(ctx, tx, resource, token); err != nil {
				return err
			}
			if checked != nil {
				checked()
				checked = nil
			}
			var n int
			if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM journal WHERE resource = '`+resource+`'`).Scan(&n); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, fmt.Sprintf(`INSERT INTO journal VALUES ('%s', %d, %d)`, resource, n, token))
			return err
		})
		if err == nil || errors.Is(err, fencesql.ErrStale) {
			break
		}
	}
	return err
}

// A backup brings an older token back together with the data. The cure of the documentation: before
// writers are let in again, raise all resources to a token that was given after the restore.
func TestAfterARestoreATokenFromAfterItClosesTheGap(t *testing.T) {
	eachDatabase(t, func(t *testing.T, _ database, db *sql.DB) {
		check := func(token int64) error {
			return inTx(db, func(tx *sql.Tx) error { return fencesql.Check(t.Context(), tx, "a", token) })
		}
		require.NoError(t, check(5))
		// The backup is made here, and the tokens 6 and 8 are lost with what was written after it.
		require.NoError(t, check(7), "a late write is accepted: this is the gap")
		_, err := db.Exec(`UPDATE redquorum_fence SET written = 9 WHERE written < 9`)
		require.NoError(t, err)
		require.ErrorIs(t, check(8), fencesql.ErrStale)
		require.NoError(t, check(9))
	})
}

func inTx(db *sql.DB, f func(*sql.Tx) error) error { return atLevel(db, sql.LevelDefault, f) }

func atLevel(db *sql.DB, level sql.IsolationLevel, f func(*sql.Tx) error) error {
	tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: level})
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func TestTheReadmeCompiles(t *testing.T) {
	docs.RequireReadme(t, 1, "var locker *redlock.Locker; var db *sql.DB; var ctx context.Context",
		"context", "database/sql",
		"github.com/redquorum/redquorum/contrib/fencesql")
}
