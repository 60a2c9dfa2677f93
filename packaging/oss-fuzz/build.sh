#!/bin/bash -eu
# Builds the fuzz targets of the module with what the image has for tests in Go. That writes a
# program into the folder that it is called in, which imports the package of a target: so it is
# called where internal packages are visible. And it takes all test files of a folder for a part of
# the package: so those of package x_test are removed first, from the checkout of the image.
cd "$SRC/redquorum"
go get github.com/AdamKorcz/go-118-fuzz-build/testing
go list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r package folder; do
	grep -lsZ '^package .*_test$' "$folder"/*_test.go | xargs -0r rm
	from=.
	[[ $folder != */internal/* ]] || from=${folder%/internal/*}/internal
	for target in $(grep -ohPs '(?<=^func )Fuzz\w+(?=\(f \*testing\.F\))' "$folder"/*_test.go); do
		(cd "$from" && compile_native_go_fuzzer_v2 "$package" "$target" "$(basename "$folder")_$target" </dev/null)
	done
done
