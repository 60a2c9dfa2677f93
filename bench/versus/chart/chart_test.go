package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
			t.Errorf("docs/%s is not what the data in docs/charts give: run go run ./chart in bench/versus", path)
		}
	}
}
