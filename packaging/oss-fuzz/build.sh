#!/bin/bash -eu
# Builds the fuzz targets of the module with what the image has for tests in Go, which imports the
# package of a target: those of package x_test are out of its reach.
go get github.com/AdamKorcz/go-118-fuzz-build/testing
go list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r package folder; do
	for file in $(grep -lPs '^func Fuzz\w+\(f \*testing\.F\)' "$folder"/*_test.go); do
		! grep -q '^package .*_test$' "$file" || continue
		for target in $(grep -oP '(?<=^func )Fuzz\w+(?=\(f \*testing\.F\))' "$file"); do
			compile_native_go_fuzzer_v2 "$package" "$target" "$(basename "$folder")_$target" </dev/null
		done
	done
done
