package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/versus/figures"
)

func TestDocumentAndChartsAreMadeFromTheData(t *testing.T) {
	const docs = "../../../docs"
	files, err := render(docs)
	require.NoError(t, err)
	for path, want := range files {
		chart := filepath.Ext(path) == ".svg"
		if chart {
			assert.Contains(t, string(want), "fill:#FFFFFF", "the background of %s", path)
			assert.Contains(t, string(want), "sans-serif", path)
			assert.NotContains(t, string(want), "font-family:Liberation", "a font of %s that not every machine has", path)
		}
		if chart && runtime.GOARCH != "amd64" {
			continue // the last digits of coordinates may differ
		}
		got, err := os.ReadFile(filepath.Join(docs, path))
		require.NoError(t, err)
		if string(got) != string(want) {
			t.Errorf("docs/%s is not what docs/charts/data.json gives: run go run ./chart in bench/versus", path)
		}
	}
}

func TestOnlyTheMarkedPartsAreRewritten(t *testing.T) {
	value, _ := figures.Of([]float64{1, 2})
	data := &figures.Data{
		Environment: figures.Environment{CPUs: 2, Server: "Redis 7"},
		Experiments: []figures.Experiment{{Name: figures.Throughput, Setup: "a setup", Rows: []figures.Row{
			{Peer: "redquorum", Size: 1, Values: map[string]figures.Figure{figures.LocksPerSecond: value}},
		}}},
	}
	var text strings.Builder
	text.WriteString("prose\n")
	for name := range parts {
		text.WriteString("<!-- begin " + name + ": made by make versus -->\nold\n<!-- end " + name + " -->\nmore prose\n")
	}
	got, err := fill([]byte(text.String()), data)
	require.NoError(t, err)
	assert.NotContains(t, string(got), "old\n")
	assert.Equal(t, len(parts), strings.Count(string(got), "more prose\n"))
	assert.True(t, strings.HasPrefix(string(got), "prose\n"))
	assert.Contains(t, string(got), "Redis 7")
	again, err := fill(got, data)
	require.NoError(t, err)
	assert.Equal(t, string(got), string(again))
	for name, broken := range map[string]string{
		"nothing": "prose\n",
		"no end":  strings.Replace(text.String(), "<!-- end single -->\n", "", 1),
		"twice":   text.String() + text.String(),
	} {
		_, err := fill([]byte(broken), data)
		assert.Error(t, err, name)
	}
}
