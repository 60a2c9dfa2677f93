//go:build unix

package fencesql_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/contrib/fencesql"
)

// BenchmarkWrite is a transaction with one UPDATE, with and without the check before it.
func BenchmarkWrite(b *testing.B) {
	for _, known := range databases {
		b.Run(known.name, func(b *testing.B) {
			db := known.open(b).open(b)
			require.NoError(b, fencesql.Migrate(b.Context(), db))
			for _, statement := range []string{
				`DROP TABLE IF EXISTS account`, `CREATE TABLE account (balance BIGINT)`, `INSERT INTO account VALUES (0)`,
			} {
				_, err := db.Exec(statement)
				require.NoError(b, err)
			}
			for _, checked := range []bool{false, true} {
				name := "unchecked"
				if checked {
					name = "checked"
				}
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						require.NoError(b, inTx(db, func(tx *sql.Tx) error {
							if checked {
								if err := fencesql.Check(b.Context(), tx, "account/42", 1); err != nil {
									return err
								}
							}
							_, err := tx.ExecContext(b.Context(), `UPDATE account SET balance = balance + 1`)
							return err
						}))
					}
				})
			}
		})
	}
}
