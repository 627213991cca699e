# Everything a contributor runs, and nothing else. Longer recipes are scripts in hack/.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory --no-builtin-rules

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
FUZZTIME ?= 60s

# Modules of their own, so that the dependencies of a tool or of the sandbox do not change those of Fettle.
MODULES := . sandbox sandbox/karpenter sandbox/kwok sandbox/npd sandbox/older hack/tools/gen hack/tools/helm \
	hack/tools/house hack/tools/lint hack/tools/prometheus hack/tools/release hack/tools/vuln

# A tool is built once for each set of its sources and each Go version, since building one takes minutes.
key = $(shell { cat hack/tools/$(1)/go.mod hack/tools/$(1)/go.sum; go env GOVERSION; } | cksum | cut -d' ' -f1)
CONTROLLER_GEN := bin/tools/controller-gen-$(call key,gen)
GOLANGCI_LINT := bin/tools/golangci-lint-$(call key,lint)
HELM := bin/tools/helm-$(call key,helm)
PROMTOOL := bin/tools/promtool-$(call key,prometheus)
GOVULNCHECK := bin/tools/govulncheck-$(call key,vuln)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## |##@ ' '/^##@/ { print "\n" $$2 } /^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

##@ Build and try

.PHONY: build
build: bin/fettle bin/fettle-agent bin/fettle-sandbox bin/kwok bin/fettle-demo ## Build Fettle and the sandbox into bin/

.PHONY: bin/fettle
bin/fettle:
	@hack/progress $@ "" hack/build-fettle $@ "$(VERSION)" fettle

.PHONY: bin/fettle-agent
bin/fettle-agent:
	@hack/progress $@ "" hack/build-fettle $@ "$(VERSION)" fettle-agent

# Kubernetes takes its version from the linker.
KUBERNETES_VERSION := -s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 \
	-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36
.PHONY: bin/fettle-sandbox
bin/fettle-sandbox:
	@hack/progress $@ "the first build compiles Kubernetes, about 6 minutes on two cores; later ones take seconds" \
		go -C sandbox build -v -buildvcs=false -ldflags "$(KUBERNETES_VERSION)" -o ../$@ ./cmd/fettle-sandbox

.PHONY: bin/fettle-demo
bin/fettle-demo:
	@hack/progress $@ "" go -C sandbox build -v -buildvcs=false -o ../$@ ./cmd/fettle-demo

bin/kwok: sandbox/kwok/go.mod sandbox/kwok/go.sum
	@hack/progress $@ "" go -C sandbox/kwok build -v -buildvcs=false -o ../../$@ sigs.k8s.io/kwok/cmd/kwok
	@touch $@

bin/kube-apiserver-older: sandbox/older/go.mod sandbox/older/go.sum
	@hack/progress $@ "the first build compiles an older API server, about 5 minutes on two cores" hack/build-older $@

# It is for tests alone.
bin/karpenter: sandbox/karpenter/go.mod sandbox/karpenter/go.sum
	@hack/progress $@ "the first build takes about 2 minutes on two cores" \
		go -C sandbox/karpenter build -v -buildvcs=false -o ../../$@ sigs.k8s.io/karpenter/kwok
	@touch $@

# Without the exporter to Google Cloud and the monitors of logs and statistics: tests need custom plugins alone.
NPD_TAGS := disable_stackdriver_exporter,disable_system_log_monitor,disable_system_stats_monitor
bin/node-problem-detector: sandbox/npd/go.mod sandbox/npd/go.sum
	@hack/progress $@ "the first build takes about 2 minutes on two cores" \
		go -C sandbox/npd build -v -buildvcs=false -tags $(NPD_TAGS) -o ../../$@ \
		k8s.io/node-problem-detector/cmd/nodeproblemdetector
	@touch $@

.PHONY: bin/fettle-bench
bin/fettle-bench:
	@hack/progress $@ "" go -C sandbox build -v -buildvcs=false -o ../$@ ./cmd/fettle-bench

.PHONY: demo
demo: build ## Watch Fettle repair a simulated fleet (KEEP=1 leaves it running)
	@bin/fettle-demo $(if $(KEEP),--keep)

.PHONY: demo-nhc
demo-nhc: build ## The same on nodes alone, with outside remediators (KEEP=1 leaves it running)
	@bin/fettle-demo --dialect nhc $(if $(KEEP),--keep)

.PHONY: demo-capi
demo-capi: build ## The same on workload clusters, with Cluster API's controllers (KEEP=1 leaves it running)
	@bin/fettle-demo --dialect capi $(if $(KEEP),--keep)

.PHONY: demo-metal
demo-metal: build ## The same on bare metal: hosts are powered off and on through their BMCs (KEEP=1 leaves it running)
	@go build -o bin/podruns ./hack/podruns
	@bin/fettle-demo --dialect metal $(if $(KEEP),--keep)

.PHONY: demo-selffence
demo-selffence: build ## The same without BMCs: nodes reset themselves by their watchdogs (KEEP=1 leaves it running)
	@go build -o bin/podruns ./hack/podruns
	@go build -o bin/simagents ./hack/simagents
	@bin/fettle-demo --dialect selffence $(if $(KEEP),--keep)

# The load of a benchmark; docs/performance.md explains each variable.
DIALECT ?= openshift
NODES ?= $(if $(filter metal,$(DIALECT)),400,5000)
MACHINES ?= 5000
RATE ?= $(if $(filter metal,$(DIALECT)),8,100)
BROKEN ?= 200
BREAKING ?= 0
IDLE ?= 60s
HEARTBEATS ?= 60s
ROUNDS ?= 1
CLUSTERS ?= 100
HANGING ?= 4

.PHONY: bench
bench: bin/fettle bin/fettle-agent bin/fettle-sandbox bin/fettle-bench ## Measure Fettle beside a mere watcher (NODES=5000, DIALECT=nhc, capi, metal or selffence, ...): a few minutes
ifeq ($(DIALECT),selffence)
	@bin/fettle-bench leases --nodes $(NODES) --rate $(RATE) -o bin/bench.json | tee bin/bench.txt
else
	@bin/fettle-bench --dialect $(DIALECT) --nodes $(NODES) --machines $(MACHINES) --rate $(RATE) --broken $(BROKEN) \
		--breaking $(BREAKING) --idle $(IDLE) --heartbeats $(HEARTBEATS) --rounds $(ROUNDS) --clusters $(CLUSTERS) --hanging $(HANGING) -o bin/bench.json | tee bin/bench.txt
endif

##@ Test

.PHONY: test
test: build bin/karpenter bin/node-problem-detector $(HELM) $(PROMTOOL) $(GOVULNCHECK) ## Run all tests with the race detector: unit, simulation, integration, sandbox
	@hack/test

.PHONY: test-unit
test-unit: ## Run the unit tests without the race detector, and the simulation to lesser depths
	@go test -short ./api/... ./internal/... ./cmd/...

TESTS ?=
.PHONY: test-versions
test-versions: build bin/karpenter bin/kube-apiserver-older $(HELM) ## Run tests on the oldest supported version of Kubernetes (TESTS=regexp)
	@hack/test-versions "$(TESTS)"

# The packages, the part of their mutants and the time for them; hack/mutate/doc.go says more.
PACKAGES ?=
PART ?=
BUDGET ?= 0s
.PHONY: mutate
mutate: ## Break the code in small ways and list what no test notices (PACKAGES=internal/core, PART=3/40, BUDGET=5m)
	@mkdir -p bin && go build -o bin/mutate ./hack/mutate
	@bin/mutate -package "$(PACKAGES)" -part "$(PART)" -budget "$(BUDGET)" -o bin/mutants.txt

.PHONY: survivors
survivors: ## Check that each mutant that hack/mutate/survivors.txt explains exists
	@mkdir -p bin && go build -o bin/mutate ./hack/mutate
	@bin/mutate -list >/dev/null

.PHONY: fuzz
fuzz: ## Look for input that breaks a promise or a reader, for FUZZTIME each (60s, or 1000x inputs)
	@hack/fuzz $(FUZZTIME)

# A seed of SOAK's own each time, unless it is given. A failure prints the command that replays its world.
SOAK ?= 1m
SEED ?= $(shell date +%s)000
.PHONY: soak
soak: ## Play random stories in random worlds of the simulator for a time (SOAK=1m, SEED=1)
	@go test ./internal/sim -count=1 -timeout=0 -run '^TestSoak$$' -v -soak="$(SOAK)" -seed="$(SEED)"

##@ Write and check

.PHONY: generate
generate: $(CONTROLLER_GEN) ## Generate deepcopy methods, CRDs, the RBAC role, the chart's copies and lower counts of prose
	@hack/generate $(abspath $<)

.PHONY: format
format: $(GOLANGCI_LINT) ## Lay out all Go files
	@echo "laying out Go files"
	@$< fmt

.PHONY: tidy
tidy: ## Tidy the go.mod of every module
	@for m in $(MODULES); do echo "tidying $$m/go.mod"; go -C $$m mod tidy; done

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Check the rules of the house and run the linters
	@hack/lint $(abspath $<)

.PHONY: verify
verify: ## Fail if generate, format or tidy changes a file, or lint or survivors complains
	@hack/verify

.PHONY: modverify
modverify: ## Check that the modules in Go's cache match go.sum
	@for m in $(MODULES); do echo "verifying the modules of $$m/go.mod"; go -C $$m mod verify; done

# VULNDB is a vulnerability database: a folder or a URL. WITHOUT_VULNDB=skip is for machines that may reach none.
VULNDB ?=
WITHOUT_VULNDB ?= fail
.PHONY: vulncheck
vulncheck: $(GOVULNCHECK) ## Look for known vulnerabilities that Fettle's code reaches (VULNDB=folder or URL)
	@hack/vulncheck $(abspath $<) "$(VULNDB)" "$(WITHOUT_VULNDB)"

.PHONY: clean
clean: ## Remove bin/ and dist/; Go's own caches stay
	@rm -rf bin dist

##@ Release

IMAGE ?=
.PHONY: release
release: bin/release $(HELM) ## Build a release into dist/ (VERSION=v1.2.3, IMAGE=registry/name)
	@IMAGE="$(IMAGE)" hack/release "$(VERSION)" $(abspath dist) $(abspath $(HELM)) $(abspath bin/release)
	@echo "built $(VERSION) into dist/"

# The version is of no matter here, and a working tree has none.
.PHONY: release-check
release-check: bin/release $(HELM) ## Build a release twice and compare the bytes (FRESH=1: the second without Go's cache)
	@IMAGE="$(IMAGE)" FRESH="$(FRESH)" hack/release-check v0.0.0-check $(abspath $(HELM)) $(abspath bin/release)

.PHONY: bin/release
bin/release:
	@hack/progress $@ "" go -C hack/tools/release build -v -buildvcs=false -o ../../../$@ .

$(CONTROLLER_GEN):
	@rm -f bin/tools/controller-gen-*
	@hack/progress controller-gen "" go -C hack/tools/gen build -v -buildvcs=false -o ../../../$@ \
		sigs.k8s.io/controller-tools/cmd/controller-gen

$(GOLANGCI_LINT):
	@rm -f bin/tools/golangci-lint-*
	@hack/progress golangci-lint "the first build takes about 4 minutes on two cores" \
		go -C hack/tools/lint build -v -buildvcs=false -o ../../../$@ \
		github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(HELM):
	@rm -f bin/tools/helm-*
	@hack/progress helm "the first build takes about 3 minutes on two cores" \
		go -C hack/tools/helm build -v -buildvcs=false -o ../../../$@ helm.sh/helm/v4/cmd/helm

# Without the ways to find targets, which are most of Prometheus and none of promtool's rule tests.
$(PROMTOOL):
	@rm -f bin/tools/promtool-*
	@hack/progress promtool "the first build takes about 3 minutes on two cores" \
		go -C hack/tools/prometheus build -v -buildvcs=false -tags remove_all_sd -o ../../../$@ \
		github.com/prometheus/prometheus/cmd/promtool

$(GOVULNCHECK):
	@rm -f bin/tools/govulncheck-*
	@hack/progress govulncheck "" go -C hack/tools/vuln build -v -buildvcs=false -o ../../../$@ golang.org/x/vuln/cmd/govulncheck
