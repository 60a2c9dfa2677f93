<?php
// Laravel as applications have it: the locks of a store of its cache manager, a job with the
// middleware WithoutOverlapping, and a scheduled event withoutOverlapping, on a connection of its
// Redis manager. A job and an event hold their lock for as long as they run, in a fiber each.

use Illuminate\Cache\CacheManager;
use Illuminate\Console\Scheduling\CacheEventMutex;
use Illuminate\Console\Scheduling\CallbackEvent;
use Illuminate\Container\Container;
use Illuminate\Queue\Middleware\WithoutOverlapping;
use Illuminate\Redis\RedisManager;

foreach (['Cache', 'Console', 'Container', 'Queue', 'Redis'] as $part) {
    require_once "Illuminate/$part/autoload.php";
}

[, $kind, $driver, $port] = $argv;

$app = new Container();
Container::setInstance($app);
$app->instance('config', [
    'cache.default' => 'locks',
    'cache.stores.locks' => ['driver' => 'redis', 'connection' => 'locks'],
    'cache.prefix' => '',
]);
$app->instance('redis', new RedisManager($app, $driver, [
    'locks' => ['host' => '127.0.0.1', 'port' => (int) $port, 'database' => 0],
]));
$cache = new CacheManager($app);
$app->instance(Illuminate\Contracts\Cache\Repository::class, $cache->store());

class Job
{
    public function release($delay) {}
}

// running begins what runs while it has its lock, and reports whether it has begun.
function running(callable $begin): ?Fiber
{
    $fiber = new Fiber(fn () => $begin(fn () => Fiber::suspend('yes')));
    return $fiber->start() === 'yes' ? $fiber : null;
}

function event(string $name, float $seconds, callable $work): CallbackEvent
{
    $event = new CallbackEvent(new CacheEventMutex($GLOBALS['cache']), $work);
    return $event->name($name)->withoutOverlapping($seconds / 60);
}

function begin(string $kind, string $name, int $seconds)
{
    global $app, $cache;
    switch ($kind) {
        case 'lock':
            $lock = $cache->lock($name, $seconds);
            return $lock->get() ? $lock : null;
        case 'job':
            return running(fn ($work) => (new WithoutOverlapping($name, null, $seconds))->handle(new Job(), $work));
        case 'event':
            return running(function ($work) use ($app, $name, $seconds) {
                $event = event($name, $seconds, $work);
                return $event->filtersPass($app) ? $event->run($app) : null;
            });
    }
}

// finish lets what has the lock go on to its end, where it releases that.
function finish($held): bool
{
    if (! $held instanceof Fiber) {
        return $held->release();
    }
    $GLOBALS['cache']->get('other'); // as work does; it fails, and connects anew, if the connection broke
    $held->resume();
    return true;
}

function steal(string $kind, string $name): bool
{
    global $cache;
    switch ($kind) {
        case 'lock':
            return $cache->restoreLock($name, 'stranger')->release();
        case 'job':
            return $cache->restoreLock((new WithoutOverlapping($name))->getLockKey(new Job()), 'stranger')->release();
        case 'event':
            (new CacheEventMutex($cache))->forget(event($name, 1, fn () => null));
            return true;
    }
}

$held = [];
while (($line = fgets(STDIN)) !== false) {
    [$command, $name, $millis] = array_pad(explode(' ', trim($line)), 3, '0');
    try {
        switch ($command) {
            case 'lock':
                $done = begin($kind, $name, (int) ceil($millis / 1000));
                if ($done) {
                    $held[$name] = $done;
                }
                break;
            case 'unlock':
                $done = finish($held[$name]);
                break;
            case 'steal':
                $done = steal($kind, $name);
                break;
        }
        echo $done ? "yes\n" : "no\n";
    } catch (Throwable $e) {
        if ($driver === 'predis' && $e instanceof Predis\Connection\ConnectionException) {
            $app['redis']->purge('locks'); // Laravel connects anew on phpredis alone
        }
        echo 'error ', get_class($e), ' ', str_replace("\n", ' ', $e->getMessage()), "\n";
    }
}
