# make help lists the targets. PKG selects the packages to test: make test PKG=./indexer
SHELL := /bin/bash
.DEFAULT_GOAL := help

GO ?= go
PKG ?= ./...
TEST_TIMEOUT ?= 30m

# Starts the servers for the tests, and exports their addresses to the rest of a recipe.
WITH_SERVERS = scripts/services up && environment=$$(scripts/services env && scripts/fixtures env) && eval "$$environment" && export WATERSHIP_TEST_REQUIRED=1

.PHONY: help build test lint bench soak sim cluster compose dist packages clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build ./watership
	CGO_ENABLED=0 $(GO) build -trimpath -o watership ./cmd/watership

# SQLite is C that was translated to Go. Its memory is not Go's, so the race detector sees
# nothing in it, but makes it four times slower.
RACE = -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false

# Tests that restart or overload the servers, so no others run at the same time. They run
# first: an Elasticsearch with the indices of all other tests takes minutes to start.
ALONE = BrokerRestart|MemoryAlarm|NothingLost

# The simulation takes what the tests that run alone leave of the processors, which mostly wait for servers. It runs
# without the race detector, with which it takes ten times as long.
SIMULATE ?= 0s
FRESH_SEEDS = DURATION=$(SIMULATE) GOMAXPROCS=1 nice -n 19 $(GO) test -vet=off -v -run 'TestSeeds$$' -timeout $(TEST_TIMEOUT) ./internal/simulation

# The race detector takes two to five times the processor time. make test has it for the packages whose goroutines
# share state while messages move, and make soak for all. Tests of commands and of whole installations start a binary
# that is built without it.
SHARING = watership/(broker|indexer|outbox|pipeline|projection|subscription|replayer/internal|internal/(backoff|handler|rabbit|topology))(/|$$)

# The packages whose tests take longest begin first, so that none of them is the last.
RACED = ./indexer ./pipeline ./broker ./projection ./subscription $$($(GO) list ./... | grep -E '$(SHARING)')
UNRACED = ./internal/server ./internal/cli ./internal/console ./replayer ./internal/httpapi $$($(GO) list ./... | grep -vE '$(SHARING)')
TEST = $(COLLECTOR) $(GO) test -vet=off -p 2 -parallel 3 -timeout $(TEST_TIMEOUT)

# A server sets the limits of the garbage collector for its process. Tests run many in one, where the
# collector would never stop.
COLLECTOR = GOGC=200 GOMEMLIMIT=2GiB

# The build runs while servers and test data are fetched. make lint runs vet.
test: ## Run every test on real servers, and with the race detector where goroutines share state (stop the servers with scripts/services down)
	@.ci/tools
	set -e; [[ "$(PKG)" != "./..." ]] || { $(GO) build ./... && $(GO) build $(RACE) $(RACED); } & build=$$!; $(WITH_SERVERS) || exit; wait $$build; \
		if [[ "$(PKG)" != "./..." ]]; then $(TEST) $(RACE) $(PKG); exit; fi; \
		$(FRESH_SEEDS) & seeds=$$!; \
		WATERSHIP_TEST_FAULTS=1 $(COLLECTOR) $(GO) test -vet=off -v -p 1 -run "$(ALONE)" -timeout $(TEST_TIMEOUT) ./internal/rabbit ./internal/server; wait $$seeds; \
		$(TEST) -skip 'TestSeeds$$' $(UNRACED) & unraced=$$!; raced=0; $(TEST) $(RACE) $(RACED) || raced=$$?; wait $$unraced; exit $$raced

lint: ## Run vet, staticcheck and gofumpt, and check the import rules and go.mod
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	@unformatted=$$(find . -path './.*' -prune -o -name '*.go' -print0 | xargs -0 $(GO) tool gofumpt -l) && \
		if [[ -n $$unformatted ]]; then printf 'run go tool gofumpt -w on\n%s\n' "$$unformatted"; exit 1; fi
	$(GO) test ./internal/architecture
	$(GO) mod tidy -diff

# Elasticsearch has the optimizing compiler if this starts it (make clean stops the one of the tests).
bench: ## Run every benchmark on real servers
	export WATERSHIP_TEST_STORE_COMPILER= && $(WITH_SERVERS) && $(GO) test -run '^$$' -bench . -benchmem -p 1 -timeout 2h $(PKG)

soak: ## Run the long forms of the fault and load tests, and all on every RabbitMQ
	@.ci/tools
	$(WITH_SERVERS) && export WATERSHIP_TEST_SOAK=1 && \
		$(GO) test $(RACE) -v -run Soak -p 1 -timeout 12h $(PKG) && \
		$(GO) test $(RACE) -skip Soak -parallel 4 -timeout 2h $(PKG) && \
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

packages: ## Build a release twice and compare, and install and remove its packages (root on Debian; scripts/packages)
	scripts/packages

clean: ## Stop the test servers, and delete their data and the build results
	scripts/services down
	rm -rf watership dist
