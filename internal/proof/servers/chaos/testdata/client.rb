# A client that locks as on one Redis until its input ends, and writes what it has and until when.
require "json"
require "redis"

BRIEF = JSON.parse(ARGV[0])
RNG = Random.new(BRIEF["Seed"])
FILE = File.open(BRIEF["File"], "w").tap { |f| f.sync = true }
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) + BRIEF["Ahead"]

def ask
  redis = Redis.new(host: "127.0.0.1", port: BRIEF["Redis"].sample(random: RNG), timeout: 5, reconnect_attempts: 0)
  yield redis
rescue Redis::BaseConnectionError, Redis::CommandError # no answer, or too few masters
  nil
ensure
  redis&.close
end

number = 0
until IO.select([$stdin], nil, nil, 0)
  number += 1
  name, token = BRIEF["Names"].sample(random: RNG), "#{BRIEF["ID"]}-#{number}"
  sent = now
  if ask { |redis| redis.set(name, token, nx: true, px: 1000) }
    valid, start = sent + 1_000_000_000, now
    hold = { Who: "client #{BRIEF["ID"]}", How: "ruby by RESP", Names: [name], Since: sent, From: start,
             To: [valid, start].max, Late: valid <= start, Confirmed: true }
    FILE.write(JSON.generate({ id: number, hold: hold }) + "\n")
    sleep([0.004, 0.004, 0.004, 1.2].sample(random: RNG) * RNG.rand)
    hold[:To] = [start, [valid, now].min].max
    FILE.write(JSON.generate({ id: number, hold: hold }) + "\n")
  end
  ask { |redis| redis.eval(RELEASE, keys: [name], argv: [token]) }
  sleep(0.02 * RNG.rand)
end
