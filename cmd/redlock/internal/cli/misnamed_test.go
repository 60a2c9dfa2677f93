package cli

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/redlock"
)

func TestOnlyAQuorumSaysThatAKeyIsNoLock(t *testing.T) {
	lasting, expiring, none := redlock.NodeStatus{Value: "v", TTL: -1}, redlock.NodeStatus{Value: "v", TTL: time.Second}, redlock.NodeStatus{}
	list := redlock.NodeStatus{Err: errors.New("WRONGTYPE Operation against …")}
	away := redlock.NodeStatus{Err: errors.New("away"), TTL: -1}
	for _, c := range []struct {
		nodes []redlock.NodeStatus
		want  string
	}{
		{nil, ""},
		{[]redlock.NodeStatus{none, none, none}, ""},
		{[]redlock.NodeStatus{expiring, expiring, expiring}, ""},
		{[]redlock.NodeStatus{lasting, expiring, expiring}, ""},
		{[]redlock.NodeStatus{lasting, away, none}, ""},
		{[]redlock.NodeStatus{lasting, none, lasting}, `the key "k" does not expire: it is no lock; use another name or --key-prefix`},
		{[]redlock.NodeStatus{list, list, away}, `the key "k" is no string: it is no lock; use another name or --key-prefix`},
		{[]redlock.NodeStatus{list, lasting, away}, `the key "k" does not expire: it is no lock; use another name or --key-prefix`},
	} {
		err := Misnamed("k", &redlock.Status{Quorum: 2, Nodes: c.nodes})
		if c.want == "" {
			assert.NoError(t, err, c.nodes)
			continue
		}
		assert.EqualError(t, err, c.want)
		assert.Equal(t, ExitMisnamed, ExitStatus(err))
	}
}

func TestReadableLeavesOutWhereInAScript(t *testing.T) {
	const digest = "febc0542cf9809ade88e7e72066823fa7a351fdf"
	for text, want := range map[string]string{
		"WRONGTYPE Operation against a key holding the wrong kind of value script: " + digest + ", on @user_script:70.": "the key is no string",
		"redis://a: OOM command not allowed script: " + digest + ", on @user_script:7.; redis://b: LOADING":             "redis://a: OOM command not allowed; redis://b: LOADING",
		"a script: of mine": "a script: of mine",
	} {
		assert.Equal(t, want, Readable(text))
	}
}
