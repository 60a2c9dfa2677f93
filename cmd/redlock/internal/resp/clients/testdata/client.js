// Clients of Node: ioredis by itself, redlock 5 and 4, redis-semaphore.
const Redis = require('ioredis');
const { randomUUID } = require('crypto');
const readline = require('readline');

const [, , kind, port] = process.argv;
const redis = new Redis(Number(port), '127.0.0.1');
redis.on('error', () => {});
redis.defineCommand('release', {
  numberOfKeys: 1,
  lua: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
});
redis.defineCommand('extend', {
  numberOfKeys: 1,
  lua: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end",
});
const held = {};

const kinds = {
  ioredis: () => ({
    async lock(name, millis) {
      const token = randomUUID();
      if ((await redis.set(name, token, 'PX', millis, 'NX')) !== 'OK') return false;
      held[name] = token;
      return true;
    },
    extend: async (name, millis) => (await redis.extend(name, held[name], millis)) === 1,
    unlock: async (name) => (await redis.release(name, held[name] ?? 'none')) === 1,
    steal: async (name) => (await redis.release(name, 'stranger')) === 1,
  }),
  redlock5() {
    const { default: Redlock, Lock } = require('redlock');
    const locks = new Redlock([redis], { retryCount: 0 });
    return {
      lock: async (name, millis) => Boolean((held[name] = await locks.acquire([name], millis))),
      extend: async (name, millis) => Boolean((held[name] = await held[name].extend(millis))),
      unlock: async (name) => Boolean(await held[name].release()),
      steal: async (name) => Boolean(await new Lock(locks, [name], 'stranger', [], Date.now() + 10000).release()),
    };
  },
  redlock4() {
    const Redlock = require('redlock4');
    const locks = new Redlock([redis], { retryCount: 0 });
    return {
      lock: async (name, millis) => Boolean((held[name] = await locks.lock(name, millis))),
      extend: async (name, millis) => Boolean((held[name] = await held[name].extend(millis))),
      unlock: async (name) => (await held[name].unlock(), true),
      steal: async (name) => (await new Redlock.Lock(locks, [name], 'stranger', Date.now() + 10000).unlock(), true),
    };
  },
  semaphore() {
    const { Mutex } = require('redis-semaphore');
    return {
      async lock(name, millis) {
        const mutex = new Mutex(redis, name, { lockTimeout: millis, acquireAttemptsLimit: 1, refreshInterval: 0 });
        if (!(await mutex.tryAcquire())) return false;
        held[name] = mutex;
        return true;
      },
      unlock: async (name) => ((await held[name].release()), true),
      steal: async (name) => (await redis.release('mutex:' + name, 'stranger')) === 1,
    };
  },
};

(async () => {
  const client = kinds[kind]();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, name, millis] = line.trim().split(/\s+/);
    try {
      console.log((await client[command](name, Number(millis))) ? 'yes' : 'no');
    } catch (e) {
      // What these libraries throw if the lock is taken, or gone.
      const texts = [e, ...(Array.isArray(e.attempts) ? (await Promise.all(e.attempts)).flatMap((a) => [...a.votesAgainst.values()]) : [])];
      const refused = texts.every((x) => ['ExecutionError', 'LockError', 'ResourceLockedError'].includes(x.name));
      console.log(refused ? 'no' : 'error ' + texts.map(String).join(' ').replace(/\n/g, ' '));
    }
  }
  process.exit(0);
})();
