<?php
// Clients of PHP: phpredis, predis, and the programs of articles. Laravel is laravel.php.

[, $kind, $port] = $argv;
if (in_array($kind, ['predis', 'setnx', 'watch'])) {
    require 'Predis/autoload.php';
}

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
const TELLING = "local v = redis.call('get', KEYS[1])
    if not v then return -1 elseif v ~= ARGV[1] then return 0 end return redis.call('del', KEYS[1])";
const EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end";

function phpredis(string $port): Redis
{
    $redis = new Redis();
    $redis->connect('127.0.0.1', (int) $port);
    return $redis;
}

function client(string $kind, string $port)
{
    return match ($kind) {
        'phpredis', 'telling' => phpredis($port),
        default => new Predis\Client(['port' => (int) $port]),
    };
}

function release($redis, string $kind, string $name, string $token): bool
{
    switch ($kind) {
        case 'phpredis':
            return $redis->eval(RELEASE, [$name, $token], 1) == 1;
        case 'telling':
            return $redis->eval(TELLING, [$name, $token], 1) == 1;
        case 'predis':
            return $redis->eval(RELEASE, 1, $name, $token) == 1;
        case 'setnx':
            return $redis->get($name) === $token && $redis->del($name) == 1;
        case 'watch':
            $redis->watch($name);
            if ($redis->get($name) !== $token) {
                $redis->unwatch();
                return false;
            }
            $redis->multi();
            $redis->del($name);
            return $redis->exec() == [1];
    }
}

$redis = null;
$held = [];
while (($line = fgets(STDIN)) !== false) {
    [$command, $name, $millis] = array_pad(explode(' ', trim($line)), 3, '0');
    try {
        $redis ??= client($kind, $port);
        $token = bin2hex(random_bytes(8));
        $ttl = (int) ceil($millis / 1000);
        $done = match (true) {
            $command === 'lock' && ($kind === 'phpredis' || $kind === 'telling') => $redis->set($name, $token, ['nx', 'px' => (int) $millis]),
            $command === 'lock' && $kind === 'setnx' => $redis->setnx($name, $token) && $redis->expire($name, $ttl) && $redis->ttl($name) > 0,
            $command === 'lock' => (string) $redis->set($name, $token, 'PX', (int) $millis, 'NX') === 'OK',
            $command === 'extend' && ($kind === 'setnx') => $redis->expire($name, $ttl),
            $command === 'extend' && in_array($kind, ['predis', 'watch']) => $redis->eval(EXTEND, 1, $name, $held[$name], $millis) == 1,
            $command === 'extend' && $kind === 'phpredis' => $redis->eval(EXTEND, [$name, $held[$name], $millis], 1) == 1,
            $command === 'unlock' => release($redis, $kind, $name, $held[$name] ?? 'none'),
            $command === 'steal' => release($redis, $kind, $name, 'stranger'),
        };
        if ($command === 'lock' && $done) {
            $held[$name] = $token;
        }
        if (($redis instanceof Redis) && $redis->getLastError() !== null) {
            throw new Exception($redis->getLastError());
        }
        echo $done ? "yes\n" : "no\n";
    } catch (Throwable $e) {
        $redis = null; // the next command connects anew
        echo 'error ', get_class($e), ' ', str_replace("\n", ' ', $e->getMessage()), "\n";
    }
}
