package redlock

import "context"

// TryLockAll acquires all names, or none: each node decides on all of them in one step, so the order of the names does not
// matter and two sets that overlap exclude each other. 1 to 256 names, each once. Otherwise it is as [Locker.TryLock].
func (l *Locker) TryLockAll(ctx context.Context, names []string, opts ...LockOption) (*Lock, error) {
	cfg, err := l.setConfig(ctx, names, opts)
	if err != nil {
		return nil, err
	}
	return l.tryAcquire(ctx, names, &cfg)
}

// LockAll acquires all names as [Locker.TryLockAll] does, and waits for them as [Locker.Lock] does.
// It gets its turn also beside names that others lock all the time, if they hold them for less than
// a minute: one that was refused a few times takes the names one after the other, in the order of
// their keys, so that no two sets wait for each other. For each further name it waits as long as it
// has waited so far, a minute at most, and keeps those that it has; then it gives all back, and
// leaves them to others for as long as it had them.
func (l *Locker) LockAll(ctx context.Context, names []string, opts ...LockOption) (*Lock, error) {
	cfg, err := l.setConfig(ctx, names, opts)
	if err != nil {
		return nil, err
	}
	return l.acquire(ctx, names, &cfg)
}

func (l *Locker) setConfig(ctx context.Context, names []string, opts []LockOption) (cfg lockConfig, err error) {
	if len(names) == 0 || len(names) > maxExtended {
		return cfg, invalid("%d names, not 1 to %d", len(names), maxExtended)
	}
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		if seen[name] {
			return cfg, invalid("name %d (%q) is there twice", i+1, name)
		}
		seen[name] = true
		if cfg, err = l.config.lockConfig(ctx, name, opts); err != nil {
			return cfg, err
		}
	}
	return cfg, nil
}
