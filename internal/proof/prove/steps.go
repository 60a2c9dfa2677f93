//go:build unix

package main

import "time"

// step is a command that looks for violations, and says in lines of package proof what it found.
type step struct {
	name    string
	command []string
	env     []string
	limit   time.Duration // when it is stopped
	row     int           // steps of one row run one after the other, beside those of other rows
}

// twelve matches the seeded bugs that break the lock itself, by the names of their files.
const twelve = "^(no-drift|no-limits|token-of-a-majority-of-the-granting-nodes|release-on-another-connection|" +
	"context-ignored|wall-clock|no-quarantine|validity-from-the-last-reply|healed-node-votes|" +
	"late-grant-not-released|late-done|woken-waiter-forgotten)$"

// turns matches the tests that try some of many interleavings, and here all of them.
const turns = "ShareALock|NotOvertaken|OldHolder"

// fuzzed gives the targets that read what anybody may send about 7 seconds of two processors. They
// are counted, because a duration sometimes ends in an error (https://go.dev/issue/75804).
const fuzzed = "140x FuzzReader=35000x FuzzParseEndpoint=32000x FuzzOptions=7000x"

// sizes says how much each step looks at.
type sizes struct {
	models, driver, chaos, doors, fuzz, seeded string

	soak []string // the environment of full sizes
}

var (
	ci = sizes{
		models: "REDQUORUM_SEARCH=1", driver: "2000", chaos: "2m", doors: "20s", fuzz: fuzzed, seeded: twelve,
	}
	full = sizes{
		models: "REDQUORUM_SOAK=1", driver: "100000", chaos: "90m", doors: "30m", fuzz: "10m", seeded: ".",
		soak: []string{"REDQUORUM_SOAK=1"},
	}
)

// stepsOf returns all steps, in the order of the table.
func stepsOf(soak bool) []step {
	size, limit := ci, 20*time.Minute
	if soak {
		size, limit = full, 24*time.Hour
	}
	const histories = "REDQUORUM_HISTORIES="
	models := goTest("./internal/proof/search/fence", "./redlock/internal/members/search", "./internal/proof/search/memory",
		"./internal/proof/search/permit", "./internal/proof/search/shared", "./redlock/internal/quorum/search", "./redlock/internal/members/core")
	const searches, plays, waits = 0, 1, 2 // the last row mostly waits
	steps := []step{
		{name: "models", command: models, env: []string{size.models}},
		{name: "driver", command: goTest("./internal/proof/driver"), env: []string{histories + size.driver, "REDQUORUM_PROVE=1"}, row: plays},
		{name: "turns", command: goTest("-run", turns, "./redlock"), env: append(size.soak, "REDQUORUM_PROVE=1"), row: plays},
		{name: "simulations", command: goTest("-run", "Simulated|HandOver", "./redlock", "./redlock/internal/simulation"), env: append(size.soak, "REDQUORUM_PROVE=1"), row: plays},
		{name: "chaos", command: goTest("-run", "TestChaos$", "./internal/proof/servers/chaos"), env: []string{"REDQUORUM_CHAOS=" + size.chaos}, row: waits},
		{name: "doors", command: goTest("-run", "TestChaosOfDoors", "./internal/proof/servers/chaos"), env: []string{"REDQUORUM_CHAOS=" + size.doors}, row: waits},
		{name: "clients", command: goTest("./cmd/redlock/internal/resp/clients"), env: []string{"REDQUORUM_PROVE=1"}, row: waits},
		{name: "cures", command: goTest("-run", "TestCures", "./cmd/redlock"), env: []string{"REDQUORUM_PROVE=1"}, row: waits},
		{name: "scenarios", command: goTest("./internal/proof/servers/scenario"), env: append(size.soak, "REDQUORUM_PROVE=1"), row: waits},
		{name: "fuzz", command: []string{"bash", ".ci/fuzz"}, env: []string{"FUZZTIME=" + size.fuzz}},
		{name: "seeded bugs", command: []string{"go", "run", "./internal/proof/bugs", "-run", size.seeded}},
	}
	if soak {
		steps = append(steps,
			step{name: "cron", command: goTest("-run", "TwoMachines", "./cmd/redlock/internal/run"), env: size.soak, row: waits},
			step{name: "trees", command: goTest("-run", "ARandomTree", "./cmd/redlock/internal/run"), env: size.soak, row: waits})
	}
	for i := range steps {
		steps[i].limit = limit
	}
	return steps
}

// goTest runs tests so that they say which ones ran. Its limit is that of the step.
func goTest(args ...string) []string {
	return append([]string{"go", "test", "-count=1", "-v", "-timeout", "0"}, args...)
}
