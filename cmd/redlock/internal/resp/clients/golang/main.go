// Command golang locks with libraries of Go that know one Redis. Package clients says what it is
// told, and what it answers.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// library is a library of locks. Each returns false if somebody else has the lock.
type library struct {
	lock, extend  func(ctx context.Context, name string, ttl time.Duration) (bool, error)
	unlock, steal func(ctx context.Context, name string) (bool, error)
}

func main() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[2]})
	l := map[string]func(*redis.Client) library{"redsync": ofRedsync, "redislock": ofRedislock}[os.Args[1]](client)
	ctx := context.Background()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := append(strings.Fields(lines.Text()), "0")
		millis, _ := strconv.Atoi(words[2])
		ttl := time.Duration(millis) * time.Millisecond
		var done bool
		var err error
		switch words[0] {
		case "lock":
			done, err = l.lock(ctx, words[1], ttl)
		case "extend":
			done, err = l.extend(ctx, words[1], ttl)
		case "unlock":
			done, err = l.unlock(ctx, words[1])
		case "steal":
			done, err = l.steal(ctx, words[1])
		}
		switch {
		case err != nil:
			fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
		case done:
			fmt.Println("yes")
		default:
			fmt.Println("no")
		}
	}
}

// refused drops the errors by which a library says no.
func refused(err error, known ...error) (bool, error) {
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) {
		return false, nil
	}
	for _, one := range known {
		if errors.Is(err, one) {
			return false, nil
		}
	}
	return err == nil, err
}

func ofRedsync(client *redis.Client) library {
	rs, held := redsync.New(goredis.NewPool(client)), map[string]*redsync.Mutex{}
	return library{
		lock: func(ctx context.Context, name string, ttl time.Duration) (bool, error) {
			mutex := rs.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1))
			ok, err := refused(mutex.TryLockContext(ctx))
			if ok {
				held[name] = mutex
			}
			return ok, err
		},
		extend: func(ctx context.Context, name string, _ time.Duration) (bool, error) {
			return held[name].ExtendContext(ctx)
		},
		unlock: func(ctx context.Context, name string) (bool, error) {
			ok, err := held[name].UnlockContext(ctx)
			if err != nil {
				return refused(err, redsync.ErrLockAlreadyExpired)
			}
			return ok, nil
		},
		steal: func(ctx context.Context, name string) (bool, error) {
			_, err := rs.NewMutex(name, redsync.WithValue("stranger")).UnlockContext(ctx)
			return refused(err, redsync.ErrLockAlreadyExpired)
		},
	}
}

func ofRedislock(client *redis.Client) library {
	locks, held := redislock.New(client), map[string]*redislock.Lock{}
	return library{
		lock: func(ctx context.Context, name string, ttl time.Duration) (bool, error) {
			lock, err := locks.Obtain(ctx, name, ttl, nil)
			ok, err := refused(err, redislock.ErrNotObtained)
			if ok {
				held[name] = lock
			}
			return ok, err
		},
		extend: func(ctx context.Context, name string, ttl time.Duration) (bool, error) {
			return refused(held[name].Refresh(ctx, ttl, nil), redislock.ErrNotObtained)
		},
		unlock: func(ctx context.Context, name string) (bool, error) {
			return refused(held[name].Release(ctx), redislock.ErrLockNotHeld)
		},
		steal: func(ctx context.Context, name string) (bool, error) {
			n, err := redis.NewScript("if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0").
				Run(ctx, client, []string{name}, "stranger").Int()
			return n == 1, err
		},
	}
}
