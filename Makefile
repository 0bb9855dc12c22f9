# Every habit of this repository is one target. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

MODULES := proto scripts $(sort $(patsubst components/%/go.mod,components/%,$(wildcard components/*/go.mod components/*/*/go.mod)))
BIN := bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# The NAT of the demo's CVMs: NAT=port-restricted (the default), full-cone,
# address-restricted, symmetric or none; UDP=open (the default) or blocked. PLATFORM=vmm: the local
# cloud is two hosts with dstack-vmm, in place of Phala Cloud (PLATFORM=phala).
DEMO_NET = $(if $(NAT),--nat $(NAT)) $(if $(UDP),--udp $(UDP)) $(if $(PLATFORM),--platform $(PLATFORM))
LDFLAGS := -s -w -X main.version=$(VERSION)

# The machine's own PATH, for programs that search it; a nested make keeps the first PATH.
ifndef CADRE_HOST_PATH
export CADRE_HOST_PATH := $(PATH)
endif
# Targets find Cadre's programs, and the commands that scripts/tools.sh declares and links. Other
# commands are missing on every machine.
FOUND := $(CURDIR)/.tools/bin:$(CURDIR)/$(BIN):$(CURDIR)/.tools/path/build
export PATH := $(FOUND):$(CURDIR)/.tools/path/run
generate fmt lint check: export PATH := $(FOUND):$(CURDIR)/.tools/path/dev
images images-reproduce: export PATH := $(FOUND):$(CURDIR)/.tools/path/images
test-clients: export PATH := $(FOUND):$(CURDIR)/.tools/path/clients
test-dashboard docs-dashboard: export PATH := $(FOUND):$(CURDIR)/.tools/path/browser
test-kafka: export PATH := $(FOUND):$(CURDIR)/.tools/path/run:$(CURDIR)/.tools/path/kafka
test-mixed: export PATH := $(FOUND):$(CURDIR)/.tools/path/run:$(CURDIR)/.tools/path/images:$(CURDIR)/.tools/path/mixed
images-lock: export PATH := $(FOUND):$(CURDIR)/.tools/path/images:$(CURDIR)/.tools/path/lock
# These run before anything is linked.
help commands tools tools-demo tools-dev tools-images tools-lock tools-clients tools-browser tools-mixed tools-kafka tools-upgrades: export PATH := $(CADRE_HOST_PATH)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: commands
commands: # link the commands of a build
	@scripts/tools.sh build

.PHONY: tools
tools: ## install the tools of builds and tests (skips present tools)
	@scripts/tools.sh run

.PHONY: tools-demo
tools-demo: ## install the tools of the demo, without tools of tests and other clusters
	@scripts/tools.sh demo

.PHONY: tools-dev
tools-dev: ## install the tools of `make check` and `make generate` too
	@scripts/tools.sh dev

.PHONY: tools-images tools-lock tools-clients tools-browser tools-mixed tools-kafka tools-upgrades
tools-images: # link the commands of `make images`
	@scripts/tools.sh images
tools-lock: # link the commands of `make images-lock`
	@scripts/tools.sh lock
tools-clients: # link the commands of `make test-clients`
	@scripts/tools.sh clients
tools-browser: # link the commands of `make test-dashboard`
	@scripts/tools.sh browser
tools-mixed: # link the commands of `make test-mixed`
	@scripts/tools.sh mixed
tools-kafka: # fetch Kafka, and link the commands of `make test-kafka`
	@scripts/tools.sh kafka
tools-upgrades: # build an older Consul for `make test-upgrades`
	@scripts/tools.sh upgrades

# Without C, so that binaries are the same whether or not the machine has a C compiler.
.PHONY: build
build: commands ## build all binaries into bin/
	@umask 022 && mkdir -p $(BIN)
	@umask 022 && CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ $(wildcard ./components/*/cmd/* ./components/*/*/cmd/*)

# The images' version is not that of the binaries: it is in recipes/pins.hcl, so that a commit
# which changes no program changes no digest. IMAGE_VERSION gives another one.
IMAGES = $(BIN)/cadre-images
IMAGE_SOURCE = $(shell git describe --always --abbrev=40 --dirty 2>/dev/null)
IMAGE_FLAGS = $(if $(IMAGE_VERSION),--version '$(IMAGE_VERSION)') $(if $(ONLY),--only '$(ONLY)') --source '$(IMAGE_SOURCE)'

.PHONY: cadre-images
cadre-images: commands
	@umask 022 && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o $(IMAGES) ./components/images/cmd/cadre-images

.PHONY: images
images: commands tools-images cadre-images ## build the OCI images into .out/images (PUSH=registry/prefix copies them there; ONLY=patroni,etcd; IMAGE_VERSION=1.0)
	@$(IMAGES) build $(IMAGE_FLAGS) $(if $(PUSH),--push '$(PUSH)')

.PHONY: images-reproduce
images-reproduce: commands tools-images cadre-images ## build the images twice, in different folders, and compare (REBUILD=1: Consul, etcd and NATS too)
	@$(IMAGES) reproduce $(IMAGE_FLAGS) $(if $(REBUILD),--rebuild)

.PHONY: images-lock
images-lock: commands tools-images tools-lock cadre-images ## resolve the packages of images again (PROGRAMS=1: Consul, etcd and NATS too)
	@$(IMAGES) lock $(if $(PROGRAMS),--programs)

.PHONY: generate
generate: tools-dev ## regenerate code and docs
	@cd proto && buf generate
	@for m in $(MODULES); do (cd $$m && go generate ./...) || exit 1; done

.PHONY: fmt
fmt: tools-dev ## format everything
	@gofmt -w $(MODULES)
	@cd proto && buf format -w

.PHONY: lint
lint: tools-dev ## lint Go, protos, shell and the import arrows
	@for m in $(filter-out proto,$(MODULES)); do (cd $$m && golangci-lint run --allow-parallel-runners --config $(CURDIR)/.golangci.yml ./...) || exit 1; done
	@cd proto && buf lint && buf format --diff --exit-code
	@shellcheck -x scripts/*.sh scripts/mixed/*.sh scripts/mixed/suites/*/* .ci/run

.PHONY: check
check: tools-dev ## check a commit: format, vet, lint, generated files, tidy modules
	@scripts/check.sh

# The images that the lanes boot. `make test-long` and its parts build the others too, Consul for minutes.
test test-race test-real: ONLY = cadre-agent,cadre-coordinator,cadre-rendezvous,etcd,etcd35,light,load,nats,patroni,webdemo

.PHONY: test
test: tools build images ## everything: the three lanes below, and seeds of the simulator that this commit alone has
	@scripts/test.sh

.PHONY: test-fast test-race test-real test-long
test-fast: tools build ## pure functions and virtual time: run it before each commit (some minutes)
	@scripts/test.sh fast
test-race: tools build images ## every package whose tests need no cluster, with the race detector
	@scripts/test.sh race
test-real: tools build images ## real Consul, PostgreSQL, Patroni, etcd, NATS, Redis and networks; whole clusters (root)
	@scripts/test.sh real
test-long: tools build images ## everything with the race detector, two minutes of fresh seeds, every example cluster, test-mixed, test-kafka and test-upgrades (root; more than an hour)
	@scripts/test.sh long
	@$(MAKE) --no-print-directory test-dashboard
	@$(MAKE) test-mixed
	@$(MAKE) test-kafka
	@$(MAKE) test-upgrades

.PHONY: test-clusters
test-clusters: tools build images ## apply, roll and destroy clusters/postgres, etcd, nats, consul and patroni-demo on local clouds (root; some minutes)
	@cd components/demo && CADRE_TEST_CLUSTERS=1 go test -count=1 -timeout 30m -v -run Clusters ./e2e_terraform

.PHONY: test-kafka
test-kafka: tools-kafka build images ## roll three real Kafka nodes under load, kill their leader, lose a disk (root; about 10 minutes)
	@cd components/adapters && CGO_ENABLED=0 go test -count=1 -timeout 10m -v -run TestRealNodes ./kafka
	@cd components/demo && CGO_ENABLED=0 CADRE_TEST_KAFKA=1 go test -count=1 -timeout 30m -v ./e2e_kafka

.PHONY: test-upgrades
test-upgrades: tools-upgrades build images ## move real PostgreSQL, Patroni and Consul members to other versions under load, and back (root; about 10 minutes)
	@cd components/agent && CGO_ENABLED=0 go test -count=1 -timeout 10m -v -run TestConsulServersGoToAnotherPatchAndBack ./internal/driver
	@cd components/demo && CGO_ENABLED=0 CADRE_TEST_UPGRADES=1 go test -count=1 -timeout 30m -v ./e2e_upgrade

.PHONY: test-clients
test-clients: tools-clients ## run official clients, from their registries, against the local cloud, its guests and a member's Consul (root; Rust's SDK where cargo is)
	@scripts/test-clients.sh

.PHONY: test-dashboard
test-dashboard: tools-browser ## open the dashboard in a headless Chromium: a rollout from the page, the keyboard, hostile text (under a minute)
	@cd components/cli && CGO_ENABLED=0 CADRE_BROWSER=chromium-headless-shell go test -count=1 -timeout 10m ./internal/dashboard

.PHONY: docs-dashboard
docs-dashboard: tools-browser ## make the pictures of docs/guides/dashboard.md
	@mkdir -p docs/guides/dashboard
	@cd components/cli && CGO_ENABLED=0 CADRE_BROWSER=chromium-headless-shell CADRE_SCREENSHOTS=$(CURDIR)/docs/guides/dashboard go test -count=1 -run TestScreenshots ./internal/dashboard

.PHONY: test-mixed
test-mixed: ONLY = cadre-agent,cadre-coordinator,light
test-mixed: tools-demo tools-mixed build images ## run this version next to the previous one, as coordinators and as agents (root; SUITES=back; about 15 minutes)
	@scripts/mixed/run.sh $(SUITES)

.PHONY: test-scale
test-scale: tools build ## the overlay's scale scenarios at full size: 100 peers, 1000 reconnects, 1000 restarts (root; about 30 minutes)
	@cd components/overlay/labtest && LABTEST_PEERS=100 LABTEST_RECONNECTS=1000 LABTEST_RESTARTS=1000 go test -count=1 -timeout 90m -v -run 'ManyPeers|ManyReconnects|OVL03' .

# The demo's images: etcd and nats-server are compiled for images that no PostgreSQL cluster runs.
demo up drill-power drill-restore drill-backup drill-backup-old drill-tcb drill-coordinators drill-upgrade bench-rollout bench-platforms bench-survival bench-service: ONLY = cadre-agent,cadre-coordinator,cadre-rendezvous,light,load,patroni

.PHONY: demo
demo: tools-demo build images ## roll a live PostgreSQL cluster on this machine and measure it (root; NAT=symmetric, UDP=blocked)
	@$(BIN)/cadre-demo run $(DEMO_NET)

.PHONY: up
up: tools-demo build images ## start the demo cluster, or bring it back, and leave it running (root; NAT and UDP as for demo)
	@$(BIN)/cadre-demo up $(DEMO_NET)

.PHONY: down
down: build ## remove the demo cluster and every trace of it (root)
	@$(BIN)/cadre-demo down

# A wrong name fails before the minutes of a build.
.PHONY: cluster-name
cluster-name:
	@[[ "$$NAME" =~ ^[a-z0-9-]+$$ && -f "clusters/$$NAME/main.tf" ]] || { \
		echo "give NAME=..., one of:" $(patsubst clusters/%/main.tf,%,$(wildcard clusters/*/main.tf)) >&2; exit 1; }

.PHONY: cluster
cluster: cluster-name tools build images ## apply clusters/NAME with OpenTofu on a local cloud of its own (root; NAME=starter)
	@$(BIN)/cadre-cluster up "$$NAME"

.PHONY: cluster-down
cluster-down: build ## remove a cluster of `make cluster` (root; NAME=starter)
	@$(BIN)/cadre-cluster down "$$NAME"

.PHONY: drill-power
drill-power: tools-demo build images ## cut the power of a whole cluster under load, start it again, look for every acknowledged write (root)
	@$(BIN)/cadre-demo drill-power $(DEMO_NET)

.PHONY: drill-restore
drill-restore: tools-demo build images ## restore a backup of the records behind a rollout: the cluster halts until an operator lets it go on (root)
	@$(BIN)/cadre-demo drill-restore

.PHONY: drill-backup
drill-backup: tools-demo build images ## delete all coordinators of a PostgreSQL cluster under load, restore a backup of the records, roll, look for every write (root)
	@$(BIN)/cadre-demo drill-backup $(DEMO_NET)

.PHONY: drill-backup-old
drill-backup-old: tools-demo build images ## the same with a small cluster and a backup from before a scale-out (root)
	@$(BIN)/cadre-demo drill-backup-old

.PHONY: drill-tcb
drill-tcb: tools-demo build images ## publish a new evaluation of Intel in the middle of a rollout: the cluster warns, runs on, and its host is updated in time (root)
	@$(BIN)/cadre-demo drill-tcb

.PHONY: drill-coordinators
drill-coordinators: tools-demo build images ## cut the power of two of three coordinators: the third one starts them again (root)
	@$(BIN)/cadre-demo drill-coordinators

.PHONY: drill-upgrade
drill-upgrade: tools-demo build images ## upgrade all coordinators under load, with a killed command, and go back from a broken version (root)
	@$(BIN)/cadre-demo drill-upgrade $(DEMO_NET)

.PHONY: bench-rollout
bench-rollout: tools-demo build images ## measure the engine's own overhead in a rollout (root)
	@$(BIN)/cadre-demo bench-rollout

.PHONY: bench-platforms
bench-platforms: tools-demo build images ## compare rollouts on own hosts (dstack-vmm) with those on Phala Cloud, both as local clouds (root; about 10 minutes)
	@$(BIN)/cadre-demo bench-platforms $(if $(NAT),--nat $(NAT)) $(if $(UDP),--udp $(UDP))

.PHONY: bench-survival
bench-survival: tools-demo build images ## measure the losses that PostgreSQL outlives: agents, coordinators, power (root; SURVIVAL=--short; about 25 minutes)
	@$(BIN)/cadre-demo bench-survival $(DEMO_NET) $(SURVIVAL)

.PHONY: bench-service
bench-service: tools-demo build images ## measure the cost of routes and the gaps of callers in 100 hand-overs (root; about 45 minutes; HANDOVERS=10 for less)
	@$(BIN)/cadre-demo bench-service $(DEMO_NET) $(if $(HANDOVERS),--handovers $(HANDOVERS))

.PHONY: bench-heal
bench-heal: tools build images ## measure how healing returns members of a database and of etcd (root; about 20 minutes)
	@$(BIN)/cadre-demo bench-heal $(DEMO_NET)

.PHONY: bench-overlay
bench-overlay: tools build ## measure the overlay against kernel TCP, TLS, QUIC over ICE, wireguard-go and Nebula (root)
	@mkdir -p .out
	@$(BIN)/cadre-bench-overlay --out .out/bench-overlay.json

.PHONY: bench-admission
bench-admission: tools build ## measure admission and renewals, with a storm of a thousand agents (about 6 minutes)
	@mkdir -p .out
	@$(BIN)/cadre-bench-admission --out .out/bench-admission.json

# The simulator makes much garbage and keeps little: it takes a quarter of a GiB so.
SIM = cd components/simulator && GOGC=2000 go test -count=1 -timeout 0 -v

.PHONY: sim
sim: commands ## replay a seed of the simulator and print all that happened (SEED=25; or PLAN=file; TIMES=50 until it breaks a promise)
	@$(SIM) -run 'TestSeed$$' -seed $${SEED:-1} $(if $(PLAN),-plan '$(abspath $(PLAN))') $(if $(TIMES),-times '$(TIMES)')

.PHONY: sim-hunt
sim-hunt: commands ## run fresh seeds until one breaks a promise, then shorten it (FOR=1h; until stopped)
	@$(SIM) -run TestHunt -for $${FOR:-8760h}

.PHONY: sim-crash
sim-crash: commands ## have coordinators die at every point of their work in a few plans, and at sampled pairs of points (PAIRS=40 of each plan)
	@$(SIM) -run TestCrashPoints -every 1 -pairs $${PAIRS:-40}

.PHONY: core-mutants
core-mutants: commands ## break the deciding code of core in N=100 places, one at a time, and count how often a test notices (SEED=1 PACKAGES=operation,rollout,policy OWN=1)
	@mkdir -p .out
	@cd components/simulator && go run ./cmd/core-mutants $(if $(OWN),-own) -n $${N:-100} -seed $${SEED:-1} -packages $${PACKAGES:-operation,rollout,policy} $(if $(OWN),,-out $(CURDIR)/.out/core-mutants.json)

.PHONY: sim-report
sim-report: core-mutants ## run mutants of core (N=100), crash points and two minutes of fresh seeds, and write the figures (FOR=10m)
	@mkdir -p .out
	@covered=$$(scripts/core-coverage.sh) && $(SIM) -run TestHunt -for $${FOR:-2m} -report $(CURDIR)/.out/bench-sim.json \
		-mutants $(CURDIR)/.out/core-mutants.json -covered $$covered -pairs $${PAIRS:-40}

.PHONY: bench-plan
bench-plan: build ## measure the cost of one decision over 100, 1000 and 10000 slots
	@mkdir -p .out
	@$(BIN)/cadre-bench-plan --out .out/bench-plan.json

.PHONY: bench-scale
bench-scale: tools build ## measure the cost of 100 to 10000 agents, storms and takeovers (root; about 30 minutes; SIZES=100,1000 for less)
	@mkdir -p .out
	@$(BIN)/cadre-bench-scale --out .out/bench-scale.json $(if $(SIZES),--sizes $(SIZES))

.PHONY: docs-performance
docs-performance: build ## write the last results of the benchmarks that were run into docs/evidence/performance.md
	@$(BIN)/cadre-bench-table --from .out --to docs/evidence/performance.md

.PHONY: clean
clean: commands ## remove build results (tools stay)
	@rm -rf $(BIN) .out
