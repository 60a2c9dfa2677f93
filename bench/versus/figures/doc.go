// Package figures is what `make versus` has measured, as data: [Data] goes to one JSON file, from
// which the charts and the tables of docs/benchmarks.md are made.
package figures
