package figures

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestRecoveryIsReadAsItWasWritten(t *testing.T) {
	want := &Recovery{
		Environment: Environment{CPUs: 2, Platform: "linux/amd64", Go: "go1", Server: "Redis 7"},
		Setup:       "a \"sentence\"",
		Step:        0.5,
		Phases:      []Phase{{Calm, 0, 1}, {"one killed", 1, 2}},
		Courses:     []Course{{"a", []float64{1, 3, 0, 0}, []float64{2, 1, 500, 1000}}},
	}
	path := filepath.Join(t.TempDir(), "recovery.json")
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadRecovery(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v, want %+v", got, err, want)
	}
	for i, want := range [][2]float64{{2, 2}, {0, 1000}} {
		if locks, wait := got.Courses[0].Of(got.Phases[i], got.Step); locks != want[0] || wait != want[1] {
			t.Errorf("phase %d: got %v locks/s and %v ms, want %v", i, locks, wait, want)
		}
	}
	if locks, wait := got.Courses[0].Of(Phase{"behind the end", 2, 3}, got.Step); locks != 0 || wait != 0 {
		t.Errorf("got %v locks/s and %v ms behind the end", locks, wait)
	}
}

func TestRecoveryWithMomentsMissingIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recovery.json")
	for name, text := range map[string]string{
		"no wait": `{"step":1,"courses":[{"peer":"a","locks":[1],"waits":[]}]}`,
		"no step": `{"courses":[{"peer":"a","locks":[1],"waits":[1]}]}`,
		"unknown": `{"stop":1}`,
		"nothing": ``,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRecovery(path); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
