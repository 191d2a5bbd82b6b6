# `make` alone prints what there is.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GOLANGCI_LINT_VERSION := v2.15.0
GOVULNCHECK_VERSION   := v1.9.0

BENCH    ?= ./e2e/bench
FUZZTIME ?= 10s
SEEDS    ?= 3000

LINT := ./.tools/golangci-lint

# git, and go through it, read this checkout whoever owns it, as in a container
# that runs as root.
export GIT_CONFIG_COUNT   := 1
export GIT_CONFIG_KEY_0   := safe.directory
export GIT_CONFIG_VALUE_0 := $(CURDIR)

.PHONY: help run test check build bench fuzz lint fmt vuln tidy hooks tools outbound \
	tidy-check generate-check fmt-check rules explore race

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## run the whole system in one process, with an embedded Redis
	go run ./cmd/dev

test: ## run everything that must pass, as CI does: checks, lint, all tests with -race
	@for step in tools tidy-check generate-check fmt-check lint rules explore race; do \
		printf '\n== make %s (after %d s)\n' $$step $$SECONDS; \
		$(MAKE) --no-print-directory $$step || { printf '\nmake test: %s failed after %d s\n' $$step $$SECONDS >&2; exit 1; }; \
	done; \
	printf '\nmake test: all passed in %d s\n' $$SECONDS

check: test ## the same as test

build: ## build the commands into ./bin
	go build -o bin/ $(addprefix ./,$(dir $(wildcard cmd/*/main.go)))

bench: ## measure throughput and lateness (BENCH=package)
	go run $(BENCH)

outbound: ## make 2,000 calls to a limited API in several ways (ARGS='-scale 1')
	@dir=$$(mktemp -d); trap 'kill $$(cat $$dir/pid) 2>/dev/null || true; rm -rf $$dir' EXIT; \
	redis-server --port 0 --unixsocket $$dir/redis --pidfile $$dir/pid --daemonize yes --save '' --dir $$dir >/dev/null; \
	until [ -S $$dir/redis ]; do sleep 0.05; done; \
	go run ./examples/outbound -redis $$dir/redis $(ARGS)

fuzz: ## run every Fuzz target for FUZZTIME (10s)
	@for dir in $$(grep -rlE --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		list=$$(go test -list '^Fuzz' $$dir); \
		for target in $$(grep '^Fuzz' <<<"$$list"); do \
			printf '\n== %s %s\n' $$dir $$target; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$dir; \
		done; \
	done

lint: $(LINT) ## run the linters, go vet among them
	$(LINT) run --timeout 15m

fmt: $(LINT) ## format the code
	$(LINT) fmt

vuln: ## look for known vulnerabilities (asks vuln.go.dev)
	go run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) ./...

tidy: ## tidy go.mod and go.sum
	go mod tidy

hooks: ## have git run .githooks/pre-commit before each commit
	git config core.hooksPath .githooks

tools: $(LINT) ## install what the tests need and this machine lacks
	@./.ci/install

# The binary records its own version and that of the Go it was built with, which
# must not be older than the Go of go.mod.
.PHONY: $(LINT)
$(LINT):
	@go=$$(go env GOVERSION); \
	built=$$(go version -m $@ 2>/dev/null || true); \
	if ! grep -q ": $$go$$" <<<"$$built" || ! grep -q "golangci-lint/v2[[:space:]]$(GOLANGCI_LINT_VERSION)[[:space:]]" <<<"$$built"; then \
		echo "building golangci-lint $(GOLANGCI_LINT_VERSION) into .tools (once; takes some minutes)"; \
		GOTOOLCHAIN=$$go GOBIN="$(CURDIR)/.tools" \
			go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION); \
	fi

tidy-check:
	go mod tidy -diff

# Compares before and after, not with git: a change under way is no failure.
generate-check:
	@sums() { git ls-files -coz --exclude-standard | xargs -0 cksum 2>/dev/null || true; }; \
	before=$$(sums); \
	go generate ./...; \
	diff <(echo "$$before") <(sums) || { echo 'generated files were not up to date (now they are): commit them' >&2; exit 1; }

fmt-check: $(LINT)
	$(LINT) fmt --diff

# Prometheus's own tool reads the rules and runs their tests.
rules: tools
	promtool check rules dashboards/prometheus/spout.yml
	promtool test rules dashboards/prometheus/spout_test.yml

# The random exploration again, without the race detector: five times as fast.
explore:
	go test -run '^TestExplore$$' ./queue -explore.seeds=$(SEEDS)

# The end-to-end tests run alone: they measure when calls arrive. Most of them wait most of the time, so several run at once.
race:
	go test -race -timeout 15m $$(go list ./... | grep -v '/e2e$$')
	go test -race -timeout 15m -parallel 5 ./e2e
