# Everything CI does is a target here. `make` lists them.
#
#   GO        the go command                   FUZZTIME  per fuzz target, for make fuzz
#   TESTFLAGS more flags for go test, e.g. TESTFLAGS='-run Pull -v'
#   RUNS SEED for make random and make campaign    STORE    postgres or mysql, for make campaign-nodes and campaign-apart
#   BENCH     pattern for make bench                   LABFLAGS  checks and flags for make lab
#   MODELFLAGS  for make model, e.g. MODELFLAGS='-run send/NO_DEDUP -trail'

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help build run test test-short vet lint fmt fmt-check tidy-check test-go test-blackbox test-nodes test-roles assets-check shell-check deploy-check generate generate-check model lab campaign campaign-nodes campaign-apart campaign-hunt fuzz bench random ci docs clean

GO        ?= go
FUZZTIME  ?= 30s
RUNS      ?= 2000
SEED      ?=
STORE     ?= postgres
BENCH     ?= .
TESTFLAGS ?=
LABFLAGS  ?=
MODELFLAGS ?=

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X main.version=$(VERSION)

# What drives the real binary from outside is everything under test/ and the
# browser test of the page; all else is tested with the race detector.
OUTSIDE := ./test/...
# The longest come first, so that none of them is left over to run alone at the end.
LONGEST := ./cmd/impart ./internal/store/sqlstore
INSIDE   = $(LONGEST) $$($(GO) list ./... | grep -v -e '/test/' -e '/campaign/processes$$')

# A process with the race detector in it sleeps for a second before it ends, to see what
# is left of its goroutines do. Nothing is left of them (goleak looks), and the tests
# start hundreds of such processes.
export GORACE ?= atexit_sleep_ms=0
# Tests that run side by side do so because they wait for servers: more of them than
# there are processors. The target vet has looked at the code.
RACE   := $(GO) test -race -vet=off -parallel 4

# What makes the black box's servers share a PostgreSQL database, and its stories of faults.
NODES  := IMPART_STORE=postgres IMPART_NODES=2
ROLES  := $(NODES) IMPART_SHAPE=roles
# What finds or installs the database of STORE.
FIND_STORE = scripts/find-$(if $(filter mysql,$(STORE)),mariadb,postgres).sh
# For what drives a binary that is built while it runs, of which go test's cache knows
# nothing: it may never answer for that.
ONCE   := $(GO) test -count=1
# Stories of faults bring their own database: the first ones PostgreSQL, whatever
# IMPART_STORE and IMPART_REDIS name, the others what these name.
OWN    := Nodes|OneNode|WhatAnOperator|Proxy|Case07|Case08_DiesBetweenCommitAndFanOutElsewhere|Case22|Case23|Case43_TheDatabase|Case45_TheDatabaseIs
FAULTS := ^Test(Case|Security|Nodes|OneNode|WhatAnOperator|Proxy|Roles)
STORIES := ./test/blackbox ./test/crowd

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/impart
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/impart ./cmd/impart

run: ## run the server with its defaults: http://127.0.0.1:8080
	$(GO) run ./cmd/impart serve

test: fmt-check vet lint shell-check deploy-check assets-check generate-check model test-go test-blackbox ## everything, as CI does (needs Chromium, PostgreSQL, MariaDB, Redis, HAProxy, spin, buf and a C compiler; up to 15 minutes)

test-short: ## only what needs Go, and is quick
	$(GO) test -short $(TESTFLAGS) ./...

vet: ## go vet, with and without fault points
	$(GO) vet ./...
	$(GO) vet -tags fault ./...

lint: ## staticcheck, pinned in tools/go.mod; the checks and their reasons are in staticcheck.conf
	$(GO) build -C tools -o ../bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	bin/staticcheck ./...
	bin/staticcheck -tags fault ./...

fmt: ## format all Go files
	gofmt -s -w $$(git ls-files '*.go')

fmt-check:
	@bad=$$(gofmt -s -l $$(git ls-files '*.go')); if [ -n "$$bad" ]; then echo "not formatted (make fmt):"; echo "$$bad"; exit 1; fi

tidy-check: ## go.mod and go.sum hold what is needed and nothing else
	$(GO) mod tidy -diff
	cd tools && $(GO) mod tidy -diff
	cd tools/deploy && $(GO) mod tidy -diff

assets-check: ## the files of the web page
	@scripts/check-assets.sh

generate: ## write the code in internal/rpc/impartpb anew from proto/ (buf; installed if need be)
	@scripts/generate.sh

generate-check: ## that code is what proto/ gives
	@scripts/generate.sh --check

shell-check: ## the shell scripts
	@scripts/check-shell.sh

deploy-check: ## chart, compose file, systemd units, alert rules and dashboard, with what reads them
	@GO='$(GO)' scripts/check-deploy.sh

# The crowds of the SDK's stories are smaller under the race detector.
test-go: ## unit and component tests, with the race detector
	@scripts/find-postgres.sh >/dev/null
	@scripts/find-mariadb.sh >/dev/null
	@scripts/find-redis.sh >/dev/null
	@scripts/find-haproxy.sh >/dev/null
	$(RACE) -timeout 12m $(TESTFLAGS) $(INSIDE)
	$(RACE) -count=1 $(TESTFLAGS) ./internal/lab/campaign/processes
	$(GO) test $(TESTFLAGS) ./client
	IMPART_SHAPE=roles $(GO) test $(TESTFLAGS) ./internal/gateway ./internal/api
	$(GO) test -tags fault $(TESTFLAGS) ./internal/fault
	$(GO) test -tags fault $(TESTFLAGS) -run 'Fault|Planted' ./cmd/impart ./internal/logic ./internal/store/sqlstore
	$(GO) test -tags fault -timeout 6m $(TESTFLAGS) ./internal/lab/campaign/simulate

# The stories of the protocol are told once more on two nodes with one PostgreSQL
# database, and once on gateways and logic nodes apart; those of faults have their
# own for several nodes.
test-blackbox: ## the real binary from outside: protocol, crashes, random schedules, several nodes, the page in a browser
	@scripts/find-postgres.sh >/dev/null
	@scripts/find-pgbouncer.sh >/dev/null
	@scripts/find-mariadb.sh >/dev/null
	@scripts/find-redis.sh >/dev/null
	@browser=$$(scripts/find-browser.sh) && export IMPART_BROWSER="$$browser" && \
	echo "$(ONCE) -timeout 14m $(OUTSIDE)" && $(ONCE) -timeout 14m $(TESTFLAGS) $(OUTSIDE)
	$(NODES) $(ONCE) -timeout 5m -skip '$(FAULTS)' $(TESTFLAGS) ./test/blackbox
	$(ROLES) $(ONCE) -timeout 5m -skip '$(FAULTS)' $(TESTFLAGS) ./test/blackbox

test-nodes: ## every story of the black box on PostgreSQL, those of the shared server on two nodes
	@scripts/find-postgres.sh >/dev/null
	@scripts/find-pgbouncer.sh >/dev/null
	$(NODES) $(ONCE) -timeout 14m $(TESTFLAGS) ./test/blackbox

test-roles: ## the same with gateways and logic nodes apart: PostgreSQL, with Redis, MariaDB with Redis, Galera with a Redis Cluster; and the stories of the SDK
	@scripts/find-postgres.sh >/dev/null
	@scripts/find-pgbouncer.sh >/dev/null
	@scripts/find-mariadb.sh >/dev/null
	@scripts/find-redis.sh >/dev/null
	IMPART_SHAPE=roles $(ONCE) $(TESTFLAGS) ./internal/gateway ./internal/api ./client
	$(ROLES) $(ONCE) -timeout 25m $(TESTFLAGS) $(STORIES)
	$(ROLES) IMPART_REDIS=1 $(ONCE) -timeout 25m -skip '^Test($(OWN))' $(TESTFLAGS) $(STORIES)
	$(ROLES) IMPART_STORE=mysql IMPART_REDIS=1 $(ONCE) -timeout 25m -skip '^Test($(OWN))' $(TESTFLAGS) $(STORIES)
	$(ROLES) IMPART_STORE=galera IMPART_REDIS=cluster $(ONCE) -timeout 25m -p 1 -parallel 2 -skip '^Test($(OWN))' $(TESTFLAGS) $(STORIES)

model: ## the protocol as a model: all its states, and what breaks when a guard is taken out
	@tools=$$(scripts/find-spin.sh) && echo "$(GO) run ./model $$tools $(MODELFLAGS)" && \
	$(GO) run ./model $$tools $(MODELFLAGS)

lab: ## the fault lab: every check with its twins; LABFLAGS narrows it, e.g. LABFLAGS=power-cut
	CGO_ENABLED=0 $(GO) build -trimpath -tags fault -ldflags '$(LDFLAGS)' -o bin/impart-fault ./cmd/impart
	bin/impart-fault lab run $(LABFLAGS)

campaign: ## drawn schedules: RUNS in virtual time and RUNS/50 with real processes, from SEED; goes on where it stopped
	CGO_ENABLED=0 $(GO) build -tags fault -o bin/impart-fault ./cmd/impart
	bin/impart-fault lab campaign --simulate --runs $(RUNS) --seed $(or $(SEED),1)
	bin/impart-fault lab campaign --runs $$(( ($(RUNS) + 49) / 50 )) --seed $(or $(SEED),1)

campaign-nodes: ## drawn schedules with three nodes on PostgreSQL, or with STORE=mysql on MariaDB: RUNS/20 of them, from SEED
	@$(FIND_STORE) >/dev/null
	CGO_ENABLED=0 $(GO) build -tags fault -o bin/impart-fault ./cmd/impart
	bin/impart-fault lab campaign --store $(STORE) --runs $$(( ($(RUNS) + 19) / 20 )) --seed $(or $(SEED),1)

campaign-apart: ## the same with three gateways and three logic nodes, and a Redis
	@$(FIND_STORE) >/dev/null
	@scripts/find-redis.sh >/dev/null
	CGO_ENABLED=0 $(GO) build -tags fault -o bin/impart-fault ./cmd/impart
	bin/impart-fault lab campaign --store $(STORE) --redis --runs $$(( ($(RUNS) + 19) / 20 )) --seed $(or $(SEED),1)

campaign-hunt: ## every planted bug, in virtual time and with real processes, until it is found
	$(ONCE) -tags fault -timeout 30m -v -run 'TestBrokenStoresAreFound|TestPlantedBugsAreFound' ./internal/lab/campaign/simulate
	CAMPAIGN_ALL=1 $(ONCE) -timeout 60m -v -run 'TestPlantedBugsAreFound|TestPlantedBugsOfNodesAreFound|TestPlantedBugsApartAreFound|TestPlantedBugsOnMySQLAreFound' ./internal/lab/campaign/processes

fuzz: ## every fuzz test for FUZZTIME
	@scripts/fuzz.sh $(FUZZTIME)

bench: ## the benchmarks; BENCH narrows them
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 30m ./...

random: ## long random-schedule test: RUNS runs from SEED
	RANDOM_RUNS=$(RUNS) RANDOM_SEED=$(SEED) $(ONCE) -v -timeout 0 -run '^TestSchedules$$' ./test/random

docs: ## write what is made from the code anew: the settings table, the capacity example, alert rules and dashboard (needs PostgreSQL)
	$(GO) test ./cmd/impart -run '^(TestOperationsTable|TestCapacityExample|TestMetricsList)$$' -update
	$(GO) test ./cmd/impart -run '^TestWatchingIsWrittenAnew$$' -update

ci: ## what .ci/run does, in this folder
	.ci/run

clean: ## remove what was built and the data of a trial run
	rm -rf bin impart-data .cache
