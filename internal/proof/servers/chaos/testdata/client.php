<?php
// A client that locks as on one Redis, and renews by a script, until its input ends. It writes what
// it has and until when.
$brief = json_decode($argv[1], true);
mt_srand($brief['Seed'] % PHP_INT_MAX);
$file = fopen($brief['File'], 'w');
const COMPARE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call(%s) else return 0 end";

function now(): int
{
    return hrtime(true) + $GLOBALS['brief']['Ahead'];
}

function ask(callable $do)
{
    $ports = $GLOBALS['brief']['Redis'];
    try {
        $redis = new Redis();
        $redis->connect('127.0.0.1', $ports[mt_rand(0, count($ports) - 1)], 5, null, 0, 5);
        return $do($redis);
    } catch (RedisException $e) { // no answer
        return false;
    }
}

function tell(array $record): void
{
    fwrite($GLOBALS['file'], json_encode($record) . "\n");
}

for ($number = 1; ; $number++) {
    $inputs = [STDIN];
    $none = null;
    if (stream_select($inputs, $none, $none, 0)) {
        break;
    }
    $name = $brief['Names'][mt_rand(0, count($brief['Names']) - 1)];
    $token = $brief['ID'] . '-' . $number;
    $sent = now();
    if (ask(fn ($redis) => $redis->set($name, $token, ['nx', 'px' => 1000])) === true) {
        $valid = $sent + 1_000_000_000;
        $start = now();
        $hold = ['Who' => 'client ' . $brief['ID'], 'How' => 'php by RESP', 'Names' => [$name], 'Since' => $sent, 'From' => $start,
            'To' => max($valid, $start), 'Late' => $valid <= $start, 'Confirmed' => true];
        tell(['id' => $number, 'hold' => $hold]);
        usleep(mt_rand(0, [4000, 4000, 4000, 600_000][mt_rand(0, 3)]));
        $sent = now();
        $renew = sprintf(COMPARE, "'pexpire', KEYS[1], ARGV[2]");
        if ($sent < $valid && mt_rand(0, 3) === 0 && ask(fn ($redis) => $redis->eval($renew, [$name, $token, 1000], 1)) === 1 && now() < $valid) {
            $valid = $sent + 1_000_000_000;
            $hold['To'] = $valid;
            tell(['id' => $number, 'hold' => $hold]);
            usleep(mt_rand(0, 600_000));
        }
        $hold['To'] = max($start, min($valid, now()));
        tell(['id' => $number, 'hold' => $hold]);
    }
    ask(fn ($redis) => $redis->eval(sprintf(COMPARE, "'del', KEYS[1]"), [$name, $token], 1));
    usleep(mt_rand(0, 20_000));
}
