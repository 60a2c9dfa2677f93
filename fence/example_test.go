package fence_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/fence"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

// account is a resource that several processes write to, each under the lock. It does not trust
// them to know whether they still hold it.
type account struct {
	gate    fence.Gate
	balance int
}

func (a *account) set(token int64, balance int) error {
	return a.gate.Do(token, func() error {
		a.balance = balance
		return nil
	})
}

func Example() {
	masters, stop := redlocktest.Masters(3)
	defer stop()
	locker, err := redlock.New(masters.Endpoints())
	if err != nil {
		panic(err)
	}
	defer locker.Close()

	ctx := context.Background()
	paused, err := locker.Lock(ctx, "account", redlock.WithFencing())
	if err != nil {
		panic(err)
	}
	// The holder is paused for so long that its lock expires. Here, ForceUnlock stands in for that.
	if err := admin.Of(locker).ForceUnlock(ctx, "account"); err != nil {
		panic(err)
	}
	next, err := locker.Lock(ctx, "account", redlock.WithFencing())
	if err != nil {
		panic(err)
	}

	var a account
	fmt.Println("the next holder writes:", a.set(next.Fence(), 100))
	fmt.Println("and once more:", a.set(next.Fence(), 120))
	err = a.set(paused.Fence(), 70) // goes on without knowing
	fmt.Println("the one that was paused is refused:", errors.Is(err, fence.ErrStale))
	fmt.Println("balance:", a.balance)
	// Output:
	// the next holder writes: <nil>
	// and once more: <nil>
	// the one that was paused is refused: true
	// balance: 120
}

// A server that restarts must not forget the newest token, or it would accept the late write of a
// holder that was paused.
func ExampleGate_Newest() {
	var saved int64 // on disk
	var saving sync.Mutex
	show := func(gate *fence.Gate, token int64) error {
		if err := gate.Admit(token); err != nil {
			return err
		}
		saving.Lock() // or the save of an older token could come last
		defer saving.Unlock()
		saved = gate.Newest()
		return nil
	}

	var before fence.Gate
	fmt.Println("8 reads:", show(&before, 8))

	var after fence.Gate // restarted
	if err := after.Admit(saved); err != nil {
		panic(err)
	}
	err := after.Do(7, func() error { panic("written") })
	fmt.Println("7 is refused:", errors.Is(err, fence.ErrStale))
	// Output:
	// 8 reads: <nil>
	// 7 is refused: true
}

// The tokens are those of locks of one name: of a writer, of two readers after it that share the
// lock, and of the next writer.
func ExampleRWGate() {
	var gate fence.RWGate
	page := "draft"
	write := func(token int64, text string) error {
		return gate.Write(token, func() error {
			page = text
			return nil
		})
	}
	read := func(token int64) (seen string, err error) {
		err = gate.Read(token, func() error {
			seen = page
			return nil
		})
		return seen, err
	}
	fmt.Println("writer 7:", write(7, "first edition"))
	fmt.Println(read(8))
	fmt.Println(read(7))
	err := write(7, "lost edition") // goes on without knowing
	fmt.Println("writer 7 is refused:", errors.Is(err, fence.ErrStale))
	fmt.Println("writer 9:", write(9, "second edition"))
	_, err = read(8)
	fmt.Println("reader 8 is refused:", errors.Is(err, fence.ErrStale))
	// Output:
	// writer 7: <nil>
	// first edition <nil>
	// first edition <nil>
	// writer 7 is refused: true
	// writer 9: <nil>
	// reader 8 is refused: true
}
