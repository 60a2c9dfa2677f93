# The tools run by path and version, so only Go (and a C compiler, for the race detector) must be
# installed.
GOLANGCI_LINT := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
TYPES         := golang.org/x/tools/go/analysis/passes/lostcancel/cmd/lostcancel@v0.52.0
GORELEASER    := go run github.com/goreleaser/goreleaser/v2@v2.15.0

# The platforms on which the library must build, beside the host, where the tests run. No file is
# for one architecture only, so each system is looked at once: Linux on the one that has fewer
# system calls.
PLATFORMS := linux/arm64 darwin/arm64 windows/amd64

# How long each fuzz target runs. With Go 1.26, a duration sometimes ends in nothing but "context
# deadline exceeded" (https://go.dev/issue/75804); a number of runs, as in FUZZTIME=100000x, never
# does.
FUZZTIME ?= 15s

BENCHTIME ?= 1s

# The rounds of `make versus`, and how long each peer has in one.
VERSUS_ROUNDS ?= 5
VERSUS_SLICE  ?= 200ms

# How often `make recovery` takes each peer through its faults.
RECOVERY_RUNS ?= 5

# How often `make flake` runs each of which packages.
FLAKE_COUNT    ?= 10
FLAKE_PACKAGES ?= ./...

# How often `make anywhere` tries a busy machine.
ANYWHERE_RUNS ?= 5

# What `make mutate` changes.
PACKAGE ?= ./queue

# Modules below the root. `./...` does not reach them.
NESTED = $(shell find . -mindepth 2 -name go.mod -not -path '*/testdata/*' -not -path '*/.git/*' -exec dirname {} \; | sort)

MODELS := ./internal/proof/search/memory ./internal/proof/search/fence ./internal/proof/search/permit ./internal/proof/search/shared ./redlock/internal/members/search ./redlock/internal/quorum/search ./redlock/internal/members/core

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: api anywhere mutate prove soak seeded flake search servers networks rolling help check tidy-check fmt-check fix-check columns vet lint cross test race test-nested pictures fuzz bench versus scale recovery release release-try

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The tests under the race detector mostly wait. What only computes runs beside them, in their
# pauses, and what it says comes behind.
check: tidy-check fix-check columns api vet ## everything that must pass before a commit
	@said=$$(mktemp) && trap 'rm "$$said"' EXIT && \
	{ nice -n 19 $(MAKE) --no-print-directory fmt-check lint cross >"$$said" 2>&1 & } && \
	computing=$$! failed=0 && \
	$(MAKE) --no-print-directory race || failed=1; \
	wait $$computing || failed=1; \
	cat "$$said"; exit $$failed

tidy-check: ## go.mod and go.sum have what the code needs
	go mod tidy -diff

fmt-check: ## every file is as gofumpt writes it, which is in golangci-lint (`fmt` alone writes it)
	$(GOLANGCI_LINT) fmt --diff

fix-check: ## go fix has nothing to modernize (it fails if it prints a diff)
	go fix -diff ./...

columns: ## prose is at most 100 columns wide (`make lint` looks at comments)
	@bash .ci/columns

api: ## the public API breaks nothing (.ci/api-base has the commit that it is compared with)
	@bash .ci/api

vet: ## go vet
	go vet ./...

lint: ## golangci-lint, with the rules of .golangci.yml (staticcheck is among its linters)
	$(GOLANGCI_LINT) run --allow-parallel-runners ./...

# Types are checked from source, as the compiler would, for a tenth of the time of `go build` and `go
# vet`: nothing is compiled, above all no standard library for each platform. TYPES does that because
# its analysis needs facts of what a package imports, and says of each package that imports one with
# an error that it lacks them. `make release-try` builds the binaries themselves.
cross: ## check the types of all code, tests too, on every platform
	@bin=$$(mktemp -d) && trap 'rm -r "$$bin"' EXIT && GOBIN=$$bin go install $(TYPES) && \
	for platform in $(PLATFORMS); do \
		echo "$$platform: $(notdir $(TYPES)) ./..."; \
		said=$$(CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} "$$bin"/* ./... 2>&1) || \
			{ printf '%s\n' "$$said" | grep -v 'failed prerequisites\|analysis skipped'; exit 1; }; \
	done

test: ## the tests
	go test ./...

# Tests that start servers mostly wait: more of them run at once than there are cores, but not many,
# because they allow a busy machine only limited slack. Of the models, one is enough: all goroutines
# are those of internal/proof/search, and redlock/internal/members/core has none.
SERVED  = $(shell go list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | grep -E 'servers/(redistest|cluster)[] ]' | cut -d ' ' -f 1)
UNRACED = $(patsubst ./%,github.com/redquorum/redquorum/%,$(wordlist 2,9,$(MODELS)))
race: ## the tests under the race detector, in random order
	go test -race -shuffle=on $(filter-out $(SERVED) $(UNRACED),$(shell go list ./...))
	go test -race -shuffle=on -p 2 -parallel 4 $(SERVED)

anywhere: ## the tests in odd surroundings, and ANYWHERE_RUNS times twice at once on a busy machine
	@ANYWHERE_RUNS=$(ANYWHERE_RUNS) bash .ci/anywhere

flake: ## every package FLAKE_COUNT times on a busy machine, or those of FLAKE_PACKAGES
	@FLAKE_COUNT=$(FLAKE_COUNT) bash .ci/flake $(FLAKE_PACKAGES)

prove: ## everything that shows that the promises are kept, and a table (7 minutes)
	go run ./internal/proof/prove

soak: ## the same at its full size (hours)
	go run ./internal/proof/prove -soak

search: ## searches of the models that take too long for `go test ./...`
	REDQUORUM_SEARCH=1 go test -count=1 -timeout 30m $(MODELS)

seeded: ## put known bugs into a copy of the library, and see that each is caught
	go run ./internal/proof/bugs

mutate: ## change PACKAGE in small ways, one at a time, and list what none of its tests notices
	go run github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0 unleash --workers 1 --timeout-coefficient 6 $(PACKAGE)

networks: ## masters behind broken networks, in network namespaces (Linux, as root, with ip, tc and nft)
	REDQUORUM_NETWORKS=1 go test -count=1 -v ./internal/proof/servers/network

rolling: ## a restart of all masters, one at a time, on each of these servers: a table
	@bash .ci/test-servers rolling

servers: ## the tests that need a server, on Redis 7 and 8, Valkey 8 and 9 (fetches newer ones)
	@bash .ci/test-servers

# They mostly wait, for servers and browsers: two modules at a time. What one says comes at its end.
test-nested: ## vet and test the modules below the root
	@printf '%s\n' $(NESTED) | xargs -P 2 -I MODULE bash -c 'cd MODULE; status=0; \
		said=$$( (go mod tidy -diff && go vet ./... && go test -vet=off ./...) 2>&1) || status=$$?; \
		printf "%s\n" "MODULE: go mod tidy -diff && go vet ./... && go test -vet=off ./..." "$$said"; exit $$status'

pictures: ## look at the dashboard with Chromium, and take the pictures of docs/images
	cd internal/proof/browser && go test -count=1 -v . -pictures ../../../docs/images

fuzz: ## run every fuzz target for FUZZTIME
	@FUZZTIME=$(FUZZTIME) bash .ci/fuzz

release-try: ## make a release here, twice: all but its image, and that the two are the same
	@bash .ci/release-try "$(GORELEASER)"

release: ## publish the tag that is checked out (the workflow does)
	$(GORELEASER) release --clean

bench: ## run the benchmarks, each for BENCHTIME
	go test -run '^$$' -bench . -benchtime $(BENCHTIME) ./bench

# `go test` says what a benchmark ran on, and prints a line for each sample, in the format of
# benchstat.
MEASURE = go test -run '^$$' -timeout 60m . -full -bench

versus: ## measure beside the peers, and write docs/benchmarks.md and its charts (6 minutes)
	cd bench/versus && for round in $$(seq $(VERSUS_ROUNDS)); do \
		$(MEASURE) 'Lock|Contention/names=1$$' -benchtime $(VERSUS_SLICE) || exit 1; done >../../docs/charts/lock.txt
	cd bench/versus && go run ./chart

scale: ## measure a million locks of one process, and ten thousand waiters (8 minutes, 4 GB)
	cd bench/versus && $(MEASURE) 'Held|Contention/names=1000$$' >../../docs/charts/scale.txt
	cd bench/versus && go run ./chart

recovery: ## measure and draw what faults do to our locks, and to those of redsync (23 minutes)
	cd bench/versus && for run in $$(seq $(RECOVERY_RUNS)); do $(MEASURE) Recovery || exit 1; done >../../docs/charts/recovery.txt
	cd bench/versus && go run ./chart
