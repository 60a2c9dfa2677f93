package recipes

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/redquorum/redquorum/redlock"
)

//recipe:begin

// documentKey is the name of the lock of a document. Escaped parts cannot run into each other.
func documentKey(tenant, id string) string {
	return "document/" + url.PathEscape(tenant) + "/" + url.PathEscape(id)
}

// edit changes a document while nobody else does. A user who opens one that is being edited is told
// so, and does not wait.
func edit(ctx context.Context, locker *redlock.Locker, tenant, id, user string, change func(context.Context) error) error {
	lock, err := locker.TryLock(ctx, documentKey(tenant, id), redlock.WithOwner(user))
	if errors.Is(err, redlock.ErrTaken) {
		return fmt.Errorf("document %s is being edited: %w", id, err)
	}
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx)
	return change(lock.Context(ctx))
}

//recipe:end

func Example_document() {
	c, machine, stop := masters()
	defer stop()
	ctx := context.Background()
	locker := machine(redlock.WithKeyPrefix("wiki:")) // for each application its own

	err := edit(ctx, locker, "acme", "plan/2", "ann", func(ctx context.Context) error {
		fmt.Println("the key is taken:", c.Holder("wiki:document/acme/plan%2F2") != "")
		err := edit(ctx, locker, "acme", "plan/2", "bob", func(context.Context) error { return nil })
		fmt.Println("bob is told:", errors.Is(err, redlock.ErrTaken))
		return edit(ctx, locker, "acme", "plan", "bob", func(context.Context) error { return nil })
	})
	fmt.Println("another document is free:", err == nil)
	// Output:
	// the key is taken: true
	// bob is told: true
	// another document is free: true
}
