# A client that locks by HTTP until its input ends, and writes what it has and until when.
import http.client, json, random, select, sys, time

brief = json.loads(sys.argv[1])
rng = random.Random(brief["Seed"])
file = open(brief["File"], "w", buffering=1)


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) + brief["Ahead"]


def ask(method, body):
    """Returns the status and the answer; 0 if none came."""
    connection = http.client.HTTPConnection("127.0.0.1", rng.choice(brief["HTTP"]), timeout=5)
    try:
        connection.request(method, "/api/v1/lease", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    except (OSError, http.client.HTTPException, ValueError):
        return 0, {}
    finally:
        connection.close()


number = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    number += 1
    name, waits = rng.choice(brief["Names"]), rng.random() < 0.5
    token = "%d-%d" % (brief["ID"], number)
    since = sent = now()
    status, lock = ask("POST", {"name": name, "ttl": "1s", "token": token, "fence": True, "wait": "3s" if waits else "0s"})
    if status == 201 and waits:  # when it was granted, it cannot know: it counts from a request that does not wait
        sent = now()
        status = 201 if ask("PUT", {"name": name, "token": token, "ttl": "1s"})[0] == 200 else 0
    if status == 201:
        valid, start = sent + 1_000_000_000, now()
        hold = {"Who": "client %d" % brief["ID"], "How": "python by HTTP", "Names": [name], "Token": lock["fence"],
                "Since": since, "From": start, "To": max(valid, start), "Late": valid <= start, "Confirmed": True}
        file.write(json.dumps({"id": number, "hold": hold}) + "\n")
        time.sleep(rng.choice([0.004, 0.004, 0.004, 1.2]) * rng.random())
        hold["To"] = max(start, min(valid, now()))
        file.write(json.dumps({"id": number, "hold": hold}) + "\n")
    if status not in (0, 201, 409, 503):
        file.write(json.dumps({"odd": "%d %s" % (status, lock), "at": now()}) + "\n")
    if status in (0, 201) and ask("DELETE", {"name": name, "token": token})[0] not in (0, 204, 410, 503):
        file.write(json.dumps({"odd": "a release", "at": now()}) + "\n")
    time.sleep(0.02 * rng.random())
