package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/fence"
	"github.com/redquorum/redquorum/redlock"
)

//recipe:begin

var errSoldOut = errors.New("sold out")

// sell takes one piece of an item from the stock. Buyers of one item come one after the other, and
// do not wait for those of other items.
func sell(ctx context.Context, locker *redlock.Locker, s *stock, item string) error {
	return locker.Do(ctx, "stock/"+item, func(_ context.Context, lock *redlock.Lock) error {
		left, err := s.left(item, lock.Fence()) // from here on, buyers before us are refused
		if err != nil {
			return err
		}
		if left == 0 {
			return errSoldOut
		}
		return s.set(item, left-1, lock.Fence()) // refused if a later buyer has been here since
	}, redlock.WithFencing())
}

//recipe:end

// stock refuses a seller that was paused until another one had the lock of the item. In SQL it is a
// column: docs/fencing.md.
type stock struct {
	mu    sync.Mutex // guards items
	items map[string]*item
}

type item struct {
	gate fence.Gate
	left int
}

func (s *stock) left(name string, token int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items[name].left, s.items[name].gate.Admit(token)
}

func (s *stock) set(name string, left int, token int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items[name].gate.Do(token, func() error {
		s.items[name].left = left
		return nil
	})
}

func Example_flashSale() {
	_, machine, stop := masters()
	defer stop()
	ctx := context.Background()
	s := &stock{items: map[string]*item{"shoe": {left: 10}}}

	results := make(chan error)
	for range 4 {
		locker := machine()
		for range 10 {
			go func() { results <- sell(ctx, locker, s, "shoe") }()
		}
	}
	sold, refused := 0, 0
	for range 40 {
		switch err := <-results; {
		case err == nil:
			sold++
		case errors.Is(err, errSoldOut):
			refused++
		}
	}
	fmt.Println(sold, "sold,", refused, "came too late,", s.items["shoe"].left, "left")

	locker := machine()
	paused, err := locker.Lock(ctx, "stock/shoe", redlock.WithFencing())
	if err != nil {
		panic(err)
	}
	if err := admin.Of(locker).ForceUnlock(ctx, "stock/shoe"); err != nil { // as if its time had ended
		panic(err)
	}
	fmt.Println("the next buyer:", sell(ctx, locker, s, "shoe"))
	next, err := locker.Lock(ctx, "stock/shoe", redlock.WithFencing())
	if err != nil {
		panic(err)
	}
	fmt.Println("restocked:", s.set("shoe", 5, next.Fence()))
	fmt.Println("the paused one is refused:", errors.Is(s.set("shoe", 9, paused.Fence()), fence.ErrStale))
	// Output:
	// 10 sold, 30 came too late, 0 left
	// the next buyer: sold out
	// restocked: <nil>
	// the paused one is refused: true
}
