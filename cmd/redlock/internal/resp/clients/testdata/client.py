# The lock of redis-py.
import sys
import redis

client = redis.Redis(port=int(sys.argv[2]), health_check_interval=0)
held = {}


def lock(name, millis):
    held[name] = client.lock(name, timeout=int(millis) / 1000, thread_local=False)
    return held[name].acquire(blocking=False)


def extend(name, millis):
    held[name].extend(int(millis) / 1000, replace_ttl=True)
    return True


def unlock(name):
    held[name].release()
    return True


def steal(name):
    other = client.lock(name, timeout=10)
    other.local.token = b"stranger"
    other.release()
    return True


for line in sys.stdin:
    words = line.split()
    try:
        print("yes" if globals()[words[0]](*words[1:]) else "no", flush=True)
    except redis.exceptions.LockError:
        print("no", flush=True)
    except Exception as e:
        print("error", repr(e).replace("\n", " "), flush=True)
