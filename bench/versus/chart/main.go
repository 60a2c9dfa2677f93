// Command chart draws the charts of docs/benchmarks.md and fills in its tables, from the data that
// TestFigures, TestRecovery and TestScale wrote. `make versus`, `make recovery` and `make scale`
// run it:
//
//	go run ./chart -docs ../../docs
//
// It reads data.json, recovery.json and scale.json in charts below the docs, writes an SVG of
// throughput and one of recovery beside them, and rewrites the marked parts of benchmarks.md.
// Nothing else goes into them, and a test fails if they are older than the data.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/redquorum/redquorum/bench/versus/figures"
)

func main() {
	docs := flag.String("docs", "../../docs", "the directory of benchmarks.md, with charts/data.json")
	flag.Parse()
	if err := update(*docs); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// update makes the files from the data.
func update(docs string) error {
	files, err := render(docs)
	if err != nil {
		return err
	}
	for path, text := range files {
		if err := os.WriteFile(filepath.Join(docs, path), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// render returns what the files below the docs are to contain.
func render(docs string) (map[string][]byte, error) {
	data, err := figures.Read(filepath.Join(docs, "charts", "data.json"))
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	if files["charts/throughput.svg"], err = drawThroughput(data.Experiment(figures.Throughput)); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(docs, "benchmarks.md"))
	if err != nil {
		return nil, err
	}
	if text, err = fill(text, data); err != nil {
		return nil, err
	}
	recovery, err := figures.ReadRecovery(filepath.Join(docs, "charts", "recovery.json"))
	if err != nil {
		return nil, err
	}
	if files["charts/recovery.svg"], err = drawRecovery(recovery); err != nil {
		return nil, err
	}
	if text, err = fillPart(text, "recovery", "make recovery", describeRecovery(recovery)); err != nil {
		return nil, err
	}
	scale, err := figures.Read(filepath.Join(docs, "charts", "scale.json"))
	if err != nil {
		return nil, err
	}
	files["benchmarks.md"], err = fillPart(text, "scale", "make scale", describeScale(scale))
	return files, err
}
