package fencesql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite"

	"github.com/redquorum/redquorum/contrib/fencesql"
	"github.com/redquorum/redquorum/fence"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

func Example() {
	ctx := context.Background()
	masters, stop := redlocktest.Masters(3)
	defer stop()
	locker, err := redlock.New(masters.Endpoints(), redlock.WithFencing())
	if err != nil {
		panic(err)
	}
	defer locker.Close()
	db, err := sql.Open("sqlite", "file::memory:")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // this database lives in its connection
	if err := fencesql.Migrate(ctx, db); err != nil {
		panic(err)
	}
	if _, err := db.Exec(`CREATE TABLE account (balance BIGINT); INSERT INTO account VALUES (100)`); err != nil {
		panic(err)
	}

	withdraw := func(lock *redlock.Lock, price int64) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := fencesql.Check(ctx, tx, "account/42", lock.Fence()); err != nil { // before the first read
			return err
		}
		var balance int64
		if err := tx.QueryRow(`SELECT balance FROM account`).Scan(&balance); err != nil {
			return err
		}
		fmt.Println("withdraw", price, "of", balance)
		if _, err := tx.Exec(fmt.Sprintf(`UPDATE account SET balance = %d`, balance-price)); err != nil {
			return err
		}
		return tx.Commit()
	}

	slow, err := locker.Lock(ctx, "account/42")
	if err != nil {
		panic(err)
	}
	masters.Expire("account/42") // the holder is paused for longer than its lock lives
	next, err := locker.Lock(ctx, "account/42")
	if err != nil {
		panic(err)
	}
	defer next.Unlock(ctx)
	fmt.Println(withdraw(next, 30))
	fmt.Println("late:", errors.Is(withdraw(slow, 50), fence.ErrStale))
	// Output:
	// withdraw 30 of 100
	// <nil>
	// late: true
}
