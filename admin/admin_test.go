package admin_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

func TestListTellsWhoHoldsWhat(t *testing.T) {
	c := redlocktest.Start(t, 3)
	locker := c.Locker(t, redlock.WithKeyPrefix("shop:"), redlock.WithOwner("me"))
	for i := range 3 {
		_, err := locker.TryLock(t.Context(), fmt.Sprint("orders/", i))
		require.NoError(t, err)
	}
	_, err := locker.TryLock(t.Context(), "stock")
	require.NoError(t, err)
	_, err = c.Locker(t).TryLock(t.Context(), "orders/other")
	require.NoError(t, err)

	locks, err := admin.Of(locker).List(t.Context(), "orders/*")
	require.NoError(t, err)
	require.Len(t, locks, 3, "with the Locker's prefix")
	for i, lock := range locks {
		assert.Equal(t, fmt.Sprint("orders/", i), lock.Name)
		assert.Equal(t, "me", lock.Owner)
		assert.Len(t, lock.Nodes, 3)
	}
	c.Node(2).Stop()
	locks, err = admin.Of(locker).List(t.Context(), "*")
	require.ErrorContains(t, err, c.Endpoints()[2], "which could not be looked through")
	assert.Len(t, locks, 4)
}

func TestForceUnlockTakesNothingButWhatWasSeen(t *testing.T) {
	c := redlocktest.Start(t, 3)
	locker := c.Locker(t, redlock.WithOwner("me"))
	lock, err := locker.TryLock(t.Context(), "a")
	require.NoError(t, err)
	operator, err := admin.New(c.Endpoints())
	require.NoError(t, err)
	defer operator.Close()

	require.ErrorIs(t, operator.ForceUnlock(t.Context(), "a", "another"), admin.ErrChanged)
	require.ErrorIs(t, operator.ForceUnlock(t.Context(), "a", ""), admin.ErrChanged, "it was free when it was seen")
	status, err := operator.Inspect(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, lock.Value(), status.Value)
	require.NoError(t, operator.Because("its host burns").ForceUnlock(t.Context(), "a", status.Value))
	status, err = operator.Inspect(t.Context(), "a")
	require.NoError(t, err)
	assert.True(t, status.Free)

	told, err := operator.Log(t.Context())
	require.NoError(t, err)
	require.Len(t, told, 1)
	assert.Equal(t, []string{"forced", "a", "me", "its host burns"}, []string{told[0].Kind, told[0].Key, told[0].Holder, told[0].Why})
	assert.Less(t, time.Since(told[0].Time).Abs(), time.Minute)
}

func TestAnOperatorClosesOnlyTheLockerThatItMade(t *testing.T) {
	c := redlocktest.Start(t, 3)
	locker := c.Locker(t)
	require.NoError(t, admin.Of(locker).Close())
	lock, err := locker.TryLock(t.Context(), "a")
	require.NoError(t, err, "whose Locker is closed, its locks are")
	require.NoError(t, lock.Err())

	options := append(make([]redlock.Option, 0, 2), redlock.WithOwner("me"))
	operator, err := admin.New(c.Endpoints(), options...)
	require.NoError(t, err)
	assert.Nil(t, options[:2][1], "the caller's slice is the caller's")
	require.NoError(t, operator.Close())
	_, err = operator.Inspect(t.Context(), "a")
	require.ErrorIs(t, err, redlock.ErrClosed)
}
