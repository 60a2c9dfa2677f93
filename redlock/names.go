package redlock

import "context"

// TryLockAll acquires all names, or none. Each node decides on all of them in one step, so the
// order of the names does not matter, and two sets that overlap exclude each other. It takes 1 to
// 256 names, each once. Otherwise it works like [Locker.TryLock].
func (l *Locker) TryLockAll(ctx context.Context, names []string, opts ...LockOption) (_ *Lock, err error) {
	ctx, span := l.trace(ctx, OperationAcquire, firstOf(names))
	defer func() { span.end(err) }()
	cfg, err := l.setConfig(ctx, names, opts)
	if err != nil {
		return nil, err
	}
	return l.tryAcquire(ctx, names, &cfg)
}

// LockAll acquires all names as [Locker.TryLockAll] does, and waits for them as [Locker.Lock] does.
// It gets its turn even if others lock the names all the time, as long as they hold them for less
// than a minute: after a few refusals it takes the names one after the other, in the order of their
// keys, so that no two sets wait for each other. For each further name it waits as long as it has
// waited so far, at most a minute, and keeps the names that it has; then it gives all of them back,
// and leaves them to others for as long as it had them. While it waits for a name that readers
// have, it keeps new readers out of that one (see [Locker.RLock]).
func (l *Locker) LockAll(ctx context.Context, names []string, opts ...LockOption) (_ *Lock, err error) {
	ctx, span := l.trace(ctx, OperationAcquire, firstOf(names))
	defer func() { span.end(err) }()
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
			return cfg, invalid("name %d (%q) is given twice", i+1, name)
		}
		seen[name] = true
		if cfg, err = l.config.lockConfig(ctx, name, opts); err != nil {
			return cfg, err
		}
	}
	return cfg, nil
}
