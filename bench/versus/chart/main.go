// Command chart draws the charts of docs/benchmarks.md and fills in its tables, from what the
// benchmarks of this module printed. `make versus`, `make recovery` and `make scale` run it:
//
//	go run ./chart -docs ../../docs
//
// It reads lock.txt, recovery.txt and scale.txt in charts below the docs, writes an SVG of
// throughput and one of recovery beside them, and makes the tables of benchmarks.md again. A test
// fails if any of these is older than the data.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/perf/benchfmt"
)

func main() {
	docs := flag.String("docs", "../../docs", "the directory of benchmarks.md, with charts/lock.txt")
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
	files := make(map[string][]byte)
	var lines []line
	for _, name := range []string{"lock.txt", "recovery.txt", "scale.txt"} {
		more, err := read(filepath.Join(docs, "charts", name))
		if err != nil {
			return nil, err
		}
		lines = append(lines, more...)
	}
	for name, draw := range map[string]func([]line) ([]byte, error){"throughput": drawThroughput, "recovery": drawRecovery} {
		var err error
		if files["charts/"+name+".svg"], err = draw(lines); err != nil {
			return nil, err
		}
	}
	text, err := os.ReadFile(filepath.Join(docs, "benchmarks.md"))
	if err != nil {
		return nil, err
	}
	files["benchmarks.md"], err = fill(text, lines)
	return files, err
}

// line is what a benchmark printed.
type line struct {
	name   string            // of the benchmark
	parts  map[string]string // of its name, and what it ran on
	values map[string]float64
}

// read reads what benchmarks printed.
func read(path string) (all []line, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	reader := benchfmt.NewReader(bytes.NewReader(text), path)
	for reader.Scan() {
		result, ok := reader.Result().(*benchfmt.Result)
		if !ok {
			continue
		}
		base, parts := result.Name.Parts()
		one := line{string(base), make(map[string]string), make(map[string]float64)}
		for _, c := range result.Config {
			one.parts[c.Key] = string(c.Value)
		}
		for _, v := range result.Values {
			one.values[v.Unit] = v.Value
		}
		for _, part := range parts {
			key, value, _ := strings.Cut(strings.TrimPrefix(string(part), "/"), "=")
			one.parts[key] = value
		}
		all = append(all, one)
	}
	return all, reader.Err()
}
