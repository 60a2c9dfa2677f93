package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/redquorum/redquorum/bench/versus/figures"
)

func TestDocumentAndChartsAreMadeFromTheData(t *testing.T) {
	const docs = "../../../docs"
	files, err := render(docs)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		if filepath.Ext(path) == ".svg" && runtime.GOARCH != "amd64" {
			continue // the last digits of coordinates may differ
		}
		got, err := os.ReadFile(filepath.Join(docs, path))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("docs/%s is not what docs/charts/data.json gives: run go run ./chart in bench/versus", path)
		}
	}
}

func TestEveryChartHasAWhiteBackgroundAndFontsOfAnyMachine(t *testing.T) {
	files, err := render("../../../docs")
	if err != nil {
		t.Fatal(err)
	}
	for path, svg := range files {
		if filepath.Ext(path) != ".svg" {
			continue
		}
		if !bytes.Contains(svg, []byte("fill:#FFFFFF")) {
			t.Errorf("%s has no white background", path)
		}
		if !bytes.Contains(svg, []byte("sans-serif")) || bytes.Contains(svg, []byte("font-family:Liberation")) {
			t.Errorf("%s has a font that not every machine has", path)
		}
	}
}

// experiment returns ours, a redsync and the limit with two rounds, and a redsync without a median
// that is best.
func experiment() *figures.Experiment {
	e := &figures.Experiment{Name: figures.Throughput, Setup: "a setup"}
	for _, row := range []struct {
		peer  string
		locks []float64
	}{
		{"redquorum", []float64{4000, 6000}},
		{"redsync-a", []float64{1000, 1200}},
		{"redsync-b", []float64{2000, 2000}},
		{"limit", []float64{8000, 8000}},
	} {
		f, _ := figures.Of(row.locks)
		e.Rows = append(e.Rows, figures.Row{Peer: row.peer, Size: 1, Values: map[string]figures.Figure{
			figures.LocksPerSecond: f, figures.ClientCPU: f,
		}})
	}
	return e
}

func TestTableHasTheMediansAndTheRatiosToTheBest(t *testing.T) {
	const want = `| corner | more | less | none |
| --- | ---: | ---: | ---: |
| redquorum | 5,000 | 5,000.0 | – |
| redsync-a | 1,100 | 1,100.0 | – |
| redsync-b | 2,000 | 2,000.0 | – |
| limit | 8,000 | 8,000.0 | – |
| redquorum, divided by the best redsync | 2.50 (2.00–3.00) | 4.50 (4.00–5.00) | – |
| redquorum, divided by the limit | 0.62 (0.50–0.75) | 0.62 (0.50–0.75) | – |
`
	got := table(experiment(), "corner", []column{
		{title: "more", size: 1, value: figures.LocksPerSecond, more: true},
		{title: "less", size: 1, value: figures.ClientCPU, decimals: 1},
		{title: "none", size: 2, value: figures.ClientCPU},
	})
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestColumnCanBeDividedByAnother(t *testing.T) {
	c := column{size: 1, value: figures.LocksPerSecond, over: &column{size: 1, value: figures.ClientCPU}}
	if f, found := c.figure(experiment(), "redquorum"); !found || f.Median != 1 {
		t.Errorf("got %v, %v, want 1", f, found)
	}
	c.over.size = 2
	if f, found := c.figure(experiment(), "redquorum"); found {
		t.Errorf("got %v, divided by nothing", f)
	}
}

func TestThousandsAreGrouped(t *testing.T) {
	for _, c := range []struct {
		value    float64
		decimals int
		want     string
	}{
		{0, 0, "0"},
		{999, 0, "999"},
		{1000, 0, "1,000"},
		{1234567.89, 1, "1,234,567.9"},
		{-1000, 0, "-1,000"},
		{0.005, 2, "0.01"},
	} {
		if got := grouped(c.value, c.decimals); got != c.want {
			t.Errorf("%v: got %q, want %q", c.value, got, c.want)
		}
	}
}

func TestOnlyTheMarkedPartsAreRewritten(t *testing.T) {
	data := &figures.Data{Environment: figures.Environment{CPUs: 2, Server: "Redis 7"}, Experiments: []figures.Experiment{*experiment()}}
	var text strings.Builder
	text.WriteString("prose\n")
	for name := range parts {
		text.WriteString("<!-- begin " + name + ": made by make versus -->\nold\n<!-- end " + name + " -->\nmore prose\n")
	}
	got, err := fill([]byte(text.String()), data)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(got), "old\n") || strings.Count(string(got), "more prose\n") != len(parts) ||
		!strings.HasPrefix(string(got), "prose\n") || !strings.Contains(string(got), "Redis 7") {
		t.Errorf("got\n%s", got)
	}
	if again, err := fill(got, data); err != nil || !bytes.Equal(again, got) {
		t.Errorf("a second time: got %v and\n%s", err, again)
	}
	for name, broken := range map[string]string{
		"nothing": "prose\n",
		"no end":  strings.Replace(text.String(), "<!-- end single -->\n", "", 1),
		"twice":   text.String() + text.String(),
	} {
		if _, err := fill([]byte(broken), data); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
