# The client of Ruby: a lock by SET and scripts, and one by SET, WATCH and MULTI.
require "redis"
require "securerandom"

kind, port = ARGV
$redis = Redis.new(port: port.to_i)
$held = {}
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end"

def release(name, token, watch)
  return $redis.eval(RELEASE, [name], [token]) == 1 unless watch
  $redis.watch(name) do
    if $redis.get(name) == token
      done = $redis.multi { |multi| multi.del(name) }
      next done == [1]
    end
    $redis.unwatch
    false
  end
end

$stdin.each_line do |line|
  command, name, millis = line.split
  begin
    done =
      case command
      when "lock"
        token = SecureRandom.hex
        got = $redis.set(name, token, nx: true, px: millis.to_i)
        $held[name] = token if got
        got
      when "extend" then $redis.eval(EXTEND, [name], [$held[name], millis]) == 1
      when "unlock" then release(name, $held[name] || "none", kind == "watch")
      when "steal" then release(name, "stranger", kind == "watch")
      end
    puts done ? "yes" : "no"
  rescue StandardError => e
    puts "error #{e.class} #{e.message.tr("\n", " ")}"
  end
  $stdout.flush
end
