package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redquorum/redquorum/redlock"
)

//recipe:begin

// daily is started every few minutes on every machine, and makes the report of a day once.
func daily(ctx context.Context, locker *redlock.Locker, day string, reports reports) error {
	lock, err := locker.TryLock(ctx, "report")
	if errors.Is(err, redlock.ErrTaken) {
		return nil // another machine is at it
	}
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	there, err := reports.Has(ctx, day)
	if err != nil || there {
		return err
	}
	return reports.Make(lock.Context(ctx), day) // INSERT … ON CONFLICT (day) DO NOTHING, at its end
}

// reports are where the days are recorded that are done.
type reports interface {
	Has(ctx context.Context, day string) (bool, error)
	Make(ctx context.Context, day string) error
}

//recipe:end

// printed are reports that are written to the output.
type printed struct {
	mu   sync.Mutex
	days map[string]bool
}

func (p *printed) Has(_ context.Context, day string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.days[day], nil
}

func (p *printed) Make(_ context.Context, day string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Println("report of", day)
	p.days[day] = true
	return nil
}

func Example_dailyReport() {
	_, machine, stop := masters()
	defer stop()
	all := &printed{days: map[string]bool{}}
	one, other := machine(), machine()
	for _, day := range []string{"Monday", "Tuesday"} {
		for _, locker := range []*redlock.Locker{one, other, one, other} {
			if err := daily(context.Background(), locker, day, all); err != nil {
				panic(err)
			}
		}
	}
	// Output:
	// report of Monday
	// report of Tuesday
}
