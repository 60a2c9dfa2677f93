// Package redlocktest runs a quorum of Redis masters inside a test, without a server or a
// container. The locks on it are real ones: the whole of package redlock, on embedded nodes that
// run the same scripts as Redis.
//
//	func TestWorkStopsWhenItsLockIsLost(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			c := redlocktest.Start(t, 5)
//			locker := c.Locker(t)
//			lock, err := locker.Lock(t.Context(), "orders/42")
//			if err != nil {
//				t.Fatal(err)
//			}
//			c.Expire("orders/42") // as if its time had ended
//			<-lock.Done()         // at the next renewal, after a third of the TTL
//			if !errors.Is(lock.Err(), redlock.ErrLost) {
//				t.Fatal(lock.Err())
//			}
//		})
//	}
//
// The masters are ready to vote when [Start] returns, and end with the test. Each Start is a
// cluster of its own, so parallel tests do not see each other's locks.
//
// # Faults
//
// [Cluster.Node] gives one master, which can be stopped, restarted without its keys, paused and
// slowed down. [Cluster.Expire] ends the time of a lock; ForceUnlock of package admin takes it
// away.
//
// # Virtual time
//
// In a testing/synctest bubble the masters and the Lockers of [Cluster.Locker] live in virtual
// time. A minute of renewals takes no time to speak of, and no result depends on how fast the
// machine is. Start the cluster inside the bubble:
//
//	synctest.Test(t, func(t *testing.T) {
//		c := redlocktest.Start(t, 5)
//		locker := c.Locker(t)
//		// ...
//		time.Sleep(time.Minute)
//	})
//
// # Limits
//
// The nodes answer as Redis 7.0 does, but know only the commands that Redlock clients use: strings,
// sorted sets, scripts, publish and subscribe. They write nothing to disk and have no replicas.
// The clock of the Lockers is package time, which on some systems stands still while the machine
// sleeps. docs/testing.md says when to use real servers.
package redlocktest
