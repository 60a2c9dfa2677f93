package doctor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redquorum/redquorum/pool"
)

// Facts that no server in these tests can be made to show.
func TestFindingsFromFacts(t *testing.T) {
	for _, c := range []struct {
		name string
		f    facts
		want string // severity and check of each finding
	}{
		{"nothing", facts{runID: "x", durable: true}, ""},
		{"no identity", facts{durable: true, denied: map[string]error{"INFO": errors.New("NOPERM")}}, "warning unidentified"},
		{"old", facts{runID: "x", durable: true, product: "redis", version: "4.0.14"}, "warning version"},
		{"new", facts{runID: "x", durable: true, product: "redis", version: "10.0.1"}, ""},
		{"no Redis", facts{runID: "x", durable: true, product: "garnet", version: "1.0.48"}, ""},
		{"has replicas", facts{runID: "x", durable: true, info: map[string]string{"connected_slaves": "2"}}, "note replicated"},
		{"full", facts{runID: "x", durable: true, info: map[string]string{"maxmemory": "1000", "maxmemory_policy": "noeviction", "used_memory": "901"}}, "warning memory"},
		{"has room", facts{runID: "x", durable: true, info: map[string]string{"maxmemory": "1000", "maxmemory_policy": "noeviction", "used_memory": "900"}}, ""},
		{"no limit", facts{runID: "x", durable: true, info: map[string]string{"maxmemory": "0", "maxmemory_policy": "allkeys-lru", "used_memory": "900"}}, ""},
		{"cannot save", facts{runID: "x", durable: true, info: map[string]string{"rdb_last_bgsave_status": "err"}}, "warning save"},
		{"just started", facts{runID: "x", info: map[string]string{"uptime_in_seconds": "0"}, denied: map[string]error{"CONFIG GET": errors.New("NOPERM")}}, "note permission"},
		{"every second", facts{runID: "x", config: map[string]string{"appendonly": "yes", "appendfsync": "everysec"}}, "note persistence"},
		{"not during rewrites", facts{runID: "x", config: map[string]string{"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "yes"}}, "note persistence"},
		{"memory full", facts{runID: "x", durable: true, unwritable: errors.New("OOM")}, "warning marker"},
		{"memory of another", facts{runID: "x", durable: true, marker: "active abc y 1 60000 z"}, "warning marker"},
		{"its own memory", facts{runID: "x", durable: true, marker: "active abc x 1 60000 z"}, ""},
		{"memory of whoever", facts{runID: "x", durable: true, marker: "active abc - 1 60000 -"}, ""},
		{"new", facts{runID: "x", durable: true, marker: "new until 1 abc x 1 60000 z", barred: pool.ErrQuarantined}, "error quarantine"},
		{"no config", facts{runID: "x", denied: map[string]error{"CONFIG GET": errors.New("NOPERM")}}, "note permission"},
		{"too slow", facts{runID: "x", durable: true, roundTrip: 501 * time.Millisecond}, "error slow"},
		{"once slow", facts{runID: "x", durable: true, slowest: 501 * time.Millisecond}, "warning slow"},
		{"a bit slow", facts{runID: "x", durable: true, roundTrip: 126 * time.Millisecond}, "warning slow"},
		{"fast enough", facts{runID: "x", durable: true, roundTrip: 125 * time.Millisecond, slowest: 500 * time.Millisecond}, ""},
		{"a bit late", facts{runID: "x", durable: true, offset: -1101 * time.Millisecond, offsetOK: true, doubt: 100 * time.Millisecond}, "warning clock"},
		{"perhaps late", facts{runID: "x", durable: true, offset: -1100 * time.Millisecond, offsetOK: true, doubt: 100 * time.Millisecond}, ""},
		{"early", facts{runID: "x", durable: true, offset: 5001 * time.Millisecond, offsetOK: true}, "error clock"},
		{"undeclared keys", facts{runID: "x", durable: true, derived: errors.New("script tried accessing undeclared key")}, "warning derived"},
		{"stalled", facts{runID: "x", err: pool.ErrTimeout}, "error unreachable"},
	} {
		var got []string
		for _, f := range c.f.check(limits{ttl: 30 * time.Second, maxTTL: time.Minute}) {
			got = append(got, string(f.Severity)+" "+f.Check)
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: got %q, want %q", c.name, text, c.want)
		}
	}
	for n, want := range map[int]string{1: "warning", 2: "note", 3: "", 4: "note", 5: ""} {
		var got string
		if found := checkNumber(n); len(found) > 0 {
			got = string(found[0].Severity)
		}
		if got != want {
			t.Errorf("%d masters: got %q, want %q", n, got, want)
		}
	}
}
