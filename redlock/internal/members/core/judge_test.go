package core

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/internal/proof/spec"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// The judgement on a node is the one of the model in which all searches for violations are made.
func TestAServerIsJudgedAsInTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bit := func(name string) bool { return rapid.Bool().Draw(t, name) }
		facts := spec.Facts{
			State: rapid.SampledFrom([]spec.State{spec.Absent, spec.New, spec.Lost, spec.Active}).Draw(t, "state"),
			Own:   bit("own"), Durable: bit("durable"), DurableNow: bit("durable now"), ReplidChanged: bit("replid changed"),
			Promoted: bit("promoted"), Elsewhere: bit("elsewhere"), Known: bit("known"), Passed: bit("passed"),
		}
		if facts.State == spec.Absent && facts.Own {
			facts.Own = false
		}
		s := Server{RunID: "run", ReplID: "repl", Promoted: facts.Promoted, Recalls: 10_000, Durable: facts.DurableNow && !facts.Promoted, Tells: true}
		m := record.Marker{
			State: map[spec.State]record.MarkerState{
				spec.Absent: record.MarkerAbsent, spec.New: record.MarkerNew, spec.Lost: record.MarkerLost, spec.Active: record.MarkerActive,
			}[facts.State],
			Incarnation: "one", RunID: "run", ReplID: "repl", Durable: facts.Durable, MaxTTL: 1000, Until: 500_000,
		}
		if facts.Own && facts.Durable {
			// Otherwise the marker is changed to say it is not; the model does that at the next
			// restart.
			s.Durable = true
		}
		if !facts.Own {
			m.RunID = "another"
		}
		if facts.ReplidChanged {
			m.ReplID = "another"
		}
		v := Knowledge{Own: !facts.Elsewhere, MaxTTL: 1000, Now: 499_500}
		if facts.Known {
			v.Known = "before"
			// A client that knew another incarnation here does not believe that this one came back.
			v.Own = false
			facts.Elsewhere = true
		}
		if facts.Passed {
			v.Now = 500_000
		}
		if facts.State == spec.Absent {
			m = record.Marker{}
		}
		if got, want := kindOf(s.Judge(m, v), v.Now), spec.Judge(facts); got != want {
			t.Fatalf("got %v, the model says %v: %+v", got, want, facts)
		}
	})
}

// kindOf returns what a judgement is in the model.
func kindOf(j Judgement, now int64) spec.Verdict {
	word := ""
	if j.Change != nil {
		word = strings.Fields(j.Change.Begin)[0]
	}
	switch {
	case j.Votes:
		return spec.Vote
	case word == record.WordNew:
		return spec.WriteNew
	case word == record.WordLost && j.Change.Wait > 0:
		return spec.WriteLost
	case word == record.WordLost:
		return spec.ToLost
	case word == record.WordActive && j.Change.Due > now:
		return spec.Wait
	case word == record.WordActive && j.Change.Due > 0:
		return spec.Activate
	default:
		return spec.TakeRun
	}
}
