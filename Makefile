# make help lists the targets. PKG selects the packages to test: make test PKG=./indexer
SHELL := /bin/bash
.DEFAULT_GOAL := help

GO ?= go
PKG ?= ./...
TEST_TIMEOUT ?= 30m

# Starts the servers for the tests, and exports their addresses to the rest of a recipe.
WITH_SERVERS = scripts/services up && environment=$$(scripts/services env && scripts/fixtures env) && eval "$$environment" && export WATERSHIP_TEST_REQUIRED=1

.PHONY: help build test lint release bench soak sim cluster compose dist packages site clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build ./watership
	CGO_ENABLED=0 $(GO) build -trimpath -o watership ./cmd/watership

# Tests that restart or overload the servers, so that no others use the servers at the same time. They run
# first: an Elasticsearch with the indices of all other tests takes minutes to start.
ALONE = BrokerRestart|MemoryAlarm|NothingLost

# Without data for debuggers a test binary takes two thirds of the time to link.
UNDEBUGGED = -ldflags='-s -w'

# The simulation takes what the tests that run alone leave of the processors, which mostly wait for servers.
SIMULATE ?= 0s
FRESH_SEEDS = DURATION=$(SIMULATE) GOMAXPROCS=1 nice -n 19 $(GO) test -vet=off $(UNDEBUGGED) -v -run 'TestSeeds$$' -timeout $(TEST_TIMEOUT) ./internal/simulation

# Packages whose tests use servers or fixtures. The tests of the others run while these are fetched, and beside
# the tests that run alone. make lint runs those of internal/architecture.
SERVED = grep -rlE 'rabbittest|servertest|databasetest|WATERSHIP_TEST_(STORE|REQUIRED)' --include='*_test.go' --exclude-dir='.*' --exclude-dir=architecture $(CURDIR) | xargs -n 1 dirname | sort -u
OTHERS = $(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./... | grep -vxFf <($(SERVED); echo $(CURDIR)/internal/architecture)

# The race detector takes two to five times the processor time, and another build of everything. make test has it for
# what decides about messages in memory, which needs no server (there with -short, since the long forms run without it),
# and for PKG; make soak has it for all.
# SQLite is C that was translated to Go. Its memory is not Go's, so the race detector sees
# nothing in it, but makes it four times slower.
RACE = -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false
RACED = ./internal/backoff ./internal/handler/... ./pipeline/internal/... ./replayer/internal/inflight ./replayer/internal/pace

# A server sets the limits of the garbage collector for its process. Tests run many in one, where the
# collector would never stop.
COLLECTOR = GOGC=200 GOMEMLIMIT=2GiB
TEST = $(COLLECTOR) $(GO) test -vet=off $(UNDEBUGGED) -parallel 3 -timeout $(TEST_TIMEOUT)

# The packages whose tests take longest begin first, so that none of them is the last.
LONGEST = ./pipeline ./indexer ./internal/server ./internal/cli ./internal/console ./broker ./replayer ./internal/httpapi \
	./eventstore/elastic ./subscription ./projection ./internal/rabbit ./internal/topology ./pipeline/transport \
	./internal/operate/routes/queuepolicy ./outbox ./eventstore/sqlite ./internal/operate/failures

# make lint runs vet.
test: ## Run every test on real servers (stop the servers with scripts/services down); with PKG, with the race detector
	@.ci/tools
	set -e; if [[ "$(PKG)" != "./..." ]]; then $(WITH_SERVERS) || exit; $(TEST) $(RACE) $(PKG); exit; fi; \
		$(FRESH_SEEDS) & seeds=$$!; \
		{ failed=0; $(TEST) -p 2 -skip 'TestSeeds$$' $$($(OTHERS)) || failed=1; $(TEST) -p 2 -short $(RACE) $(RACED) || failed=1; exit $$failed; } & others=$$!; \
		$(WITH_SERVERS) || { wait; exit 1; }; set +e; failed=0; \
		WATERSHIP_TEST_FAULTS=1 $(TEST) -v -p 1 -run "$(ALONE)" ./internal/rabbit ./internal/server || failed=1; \
		$(TEST) -p 5 $(LONGEST) $$($(SERVED)) || failed=1; \
		wait $$seeds || failed=1; wait $$others || failed=1; exit $$failed

lint: ## Run vet, staticcheck and gofumpt, and check the import rules, go.mod and the Go API
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	@unformatted=$$(find . -path './.*' -prune -o -name '*.go' -print0 | xargs -0 $(GO) tool gofumpt -l) && \
		if [[ -n $$unformatted ]]; then printf 'run go tool gofumpt -w on\n%s\n' "$$unformatted"; exit 1; fi
	$(GO) test ./internal/architecture
	$(GO) mod tidy -diff
	scripts/goapi

release: ## Commit and tag the release VERSION, as 0.1.0; with DRY_RUN=1 print the steps (scripts/release)
	@VERSION=$(VERSION) DRY_RUN=$(DRY_RUN) scripts/release

# Elasticsearch has the optimizing compiler if this starts it (make clean stops the one of the tests).
bench: ## Run every benchmark on real servers
	export WATERSHIP_TEST_STORE_COMPILER= && $(WITH_SERVERS) && $(GO) test -run '^$$' -bench . -benchmem -p 1 -timeout 2h $(PKG)

soak: ## Run the long forms of the fault and load tests, and all on every RabbitMQ
	@.ci/tools
	$(WITH_SERVERS) && export WATERSHIP_TEST_SOAK=1 && \
		$(GO) test $(RACE) -v -run Soak -p 1 -timeout 12h $(PKG) && \
		$(GO) test $(RACE) -skip Soak -parallel 4 -timeout 2h $(PKG) && \
		scripts/opensearch $(GO) test -run OpenSearch -timeout 1h ./eventstore/elastic && \
		$(MAKE) sim DURATION=1h packages

# The simulation runs in a Go runtime whose decisions repeat, with one processor for each process.
sim: ## Simulate SEEDS systems with faults, from SEED on or for a DURATION, or one of them RUNS times, or MUTANTS=1 (docs/reliability.md)
	overlay=$$($(GO) run ./internal/simulation/goruntime dist/goruntime) && \
		GOEXPERIMENT=norandomizedheapbase64 $(GO) test -c -vet=off -tags goruntime -overlay $$overlay -o dist/simulation.test ./internal/simulation && \
		cd internal/simulation && SEED=$(or $(SEED),$(if $(DURATION),,1)) DURATION=$(DURATION) SEEDS=$(or $(SEEDS),100) RUNS=$(RUNS) OVERLAY=$(if $(MUTANTS),$$overlay) GOMAXPROCS=1 GOGC=off GOMEMLIMIT=4GiB GODEBUG=asyncpreemptoff=1 \
		../../dist/simulation.test -test.v -test.run '$(if $(MUTANTS),TestMutantsAreFound,$(if $(RUNS),TestASeedGivesOneRun,(TestClocks|TestSeeds)))$$' -test.timeout 12h

cluster: ## Test three nodes of each server and three instances with faults, from SEED (root on Debian; scripts/cluster)
	scripts/cluster

compose: ## Start docker-compose.yml with the image, and test the life of a message in it
	scripts/compose

dist: ## Build the files of a release in dist/release (docs/install.md)
	$(GO) run ./scripts/dist

packages: ## Render the Helm chart, build a release twice and compare, and install and remove its packages (root on Debian; scripts/packages)
	scripts/packages

site: ## Make a site of the documentation in dist/site, without the network
	$(GO) run ./scripts/site

clean: ## Stop the test servers, and delete their data and the build results
	scripts/services down
	rm -rf watership dist
