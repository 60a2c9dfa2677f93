//go:build unix

package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof"
)

func shell(script string) step {
	return step{name: "shell", command: []string{"sh", "-c", script}, limit: time.Minute}
}

func TestAStepFailsUnlessItSaysThatItFoundNoViolation(t *testing.T) {
	line := proof.Line{Step: "chaos", Size: "20 acquisitions", Faults: 90}
	bad := line
	bad.Violations = 2
	for _, test := range []struct {
		script string
		lines  []proof.Line
		wrong  string
	}{
		{"echo '    x_test.go:1: " + line.String() + "'", []proof.Line{line}, ""},
		{"echo '" + line.String() + "'; exit 1", []proof.Line{line}, "exit status 1"},
		{"echo '" + bad.String() + "'", []proof.Line{bad}, "2 violations"},
		{"echo '--- PASS: TestA (0.00s)'; echo '    --- PASS: TestA/b (0.00s)'", []proof.Line{{Size: "1 tests"}}, ""},
		{"echo 'ok  	x	0.1s'", nil, "it ran nothing"},
		{"true", nil, "it ran nothing"},
	} {
		r := shell(test.script).run(t.Context())
		assert.Equal(t, test.lines, r.lines, test.script)
		if test.wrong == "" {
			require.NoError(t, r.err, test.script)
		} else {
			require.ErrorContains(t, r.err, test.wrong, test.script)
		}
	}
}

func TestAStepIsStoppedAtItsLimit(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, shell("sleep 600").run(ctx).err)
}
