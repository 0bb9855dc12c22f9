#!/usr/bin/env bash
# Runs the tests of every module, with the race detector but where no goroutine is. Prints
# each package's line and the output of each test that fails as they come; at the end the
# slowest packages, every skip with its reason, and what failed. A skip without a reason
# fails. All output is kept in .out/test.log.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# Packages that run real clusters or the lab. What fails in them may be the machine's doing:
# up to three such tests in all are tried once more, and those that pass then are listed as
# flaky, which is a defect to mend. Nothing else is tried again.
#
# Real servers of two packages can share two cores.
clusters=(
	./components/agent/internal/driver
	./components/coordinator
	./components/coordinator/internal/secrets
	./components/coordinator/internal/supervise
	./components/doors
	./components/lab/natlab
	./components/local/internal/daemon
	./components/local/internal/fabric
	./components/overlay/internal/punch
)
# Two whole clusters cannot, nor two labs of network namespaces.
alone=(
	./components/demo/e2e
	./components/demo/e2e_demo
	./components/demo/e2e_etcd
	./components/demo/e2e_terraform
	./components/overlay/labtest/...
)

# These take a minute and more each. They begin first, so that nothing runs alone at the end.
longest=(
	./components/terraform-provider/internal/provider
	./components/coordinator/internal/admission
	./components/coordinator/internal/reconcile
	./components/agent/internal/agent
	./components/simulator
	./components/overlay
)
# Pure functions, with long properties: the race detector finds nothing in them by themselves,
# and they take five to ten times as long with it. It does watch them where others call them.
# scripts/sequential fails when one begins a goroutine.
sequential=(
	./components/core/...
	./components/compose/lint
	./components/overlay/internal/link
	./components/overlay/internal/underlay/paths
)

# No result of an earlier run: Go does not know that a test ran programs of ours, or a
# Consul, that have changed since.
flags=(-race -count=1 -timeout 25m)
# Built as `make build` does, so that nothing that it has compiled is compiled again.
without_c=(env CGO_ENABLED=0 GOFLAGS=-trimpath)

# Only whether the list above is true, which `make check` asks too.
if [[ ${1:-} == sequential ]]; then
	mapfile -t folders < <(go list -e -f '{{.Dir}}' "${sequential[@]}")
	exec "${without_c[@]}" go run ./scripts/sequential "${folders[@]}"
fi
# What gotestsum calls for the packages of clusters: once for all of them, then with the name
# of a test and its package for each that is tried again.
if [[ ${1:-} == clusters ]]; then
	shift
	(($# == 0)) || exec go test -json "${flags[@]}" "$@"
	status=0
	go test -json "${flags[@]}" -p 2 "${clusters[@]}" || status=1
	go test -json "${flags[@]}" -p 1 "${alone[@]}" || status=1
	exit "$status"
fi

mapfile -t modules < <(printf './%s/...\n' proto scripts && dirname components/*/go.mod components/*/*/go.mod | sed 's|.*|./&/...|')
# With -e also those that do not build, whose tests fail then.
special=$(go list -e "${clusters[@]}" "${alone[@]}" "${longest[@]}" "${sequential[@]}") || exit 1
all=$(go list -e "${modules[@]}") || exit 1
mapfile -t others < <(go list -e "${longest[@]}" && grep -vxF "$special" <<<"$all")

# Those in virtual time run on one processor each, two packages beside each other: where two run timers of one
# bubble at the same moment, the race detector of Go 1.26 may crash, for they share what it knows of them
# (unlockAndRun in runtime/time.go). It sees the same races on one.
# shellcheck disable=SC2016 # what go list is asked for
virtual=$(go list -e -test -f '{{$of := .ForTest}}{{range .Deps}}{{if eq . "testing/synctest"}}{{$of}}{{end}}{{end}}' "${others[@]}") || exit 1
mapfile -t timed < <(printf '%s\n' "${others[@]}" | grep -xF "$virtual")
mapfile -t others < <(printf '%s\n' "${others[@]}" | grep -vxF "$virtual")

mkdir -p .out
rm -f .out/test-*.json .out/test.log
broken=() # what failed, by the file of its events
run() {
	local events=$1
	shift
	gotestsum --format pkgname-and-test-fails --format-icons text --format-hide-empty-pkg --hide-summary all \
		--jsonfile "$events" "$@" || broken+=("$events")
}
# Whole clusters in virtual time, each of its own seed, which nobody ran before. Without the race
# detector, which has its few seeds among the others: so many more run in the same time.
fresh=(env GOGC=2000 CGO_ENABLED=0 GOFLAGS=-trimpath go test -json -count=1 -timeout 25m -run 'TestFreshSeeds$' ./components/simulator -fresh "${CADRE_FRESH_SEEDS:-500}" -fresh-from "${CADRE_FRESH_FROM:-0}")

# At once: among an hour's output nobody would find it.
scripts/test.sh sequential || exit 1
run .out/test-sequential.json --raw-command -- "${without_c[@]}" go test -json -count=1 -timeout 25m -p 2 "${sequential[@]}"
run .out/test-virtual.json -- "${flags[@]}" -p 2 -cpu 1 "${timed[@]}"
run .out/test-others.json -- "${flags[@]}" -p 2 "${others[@]}"
run .out/test-fresh.json --raw-command -- "${fresh[@]}"
grep -o 'fresh seeds from [0-9]*: [^"\]*' .out/test-fresh.json
run .out/test-clusters.json --rerun-fails=1 --rerun-fails-max-failures=3 --rerun-fails-run-root-test \
	--rerun-fails-abort-on-data-race --raw-command -- scripts/test.sh clusters
"${without_c[@]}" go run ./scripts/testreport -log .out/test.log .out/test-{sequential,virtual,others,fresh,clusters}.json || exit 1
# Something failed that no test names: a summary without failures must not hide it.
if ((${#broken[@]} > 0)); then
	echo "failed, though no test did: what wrote ${broken[*]}; what it said is above" >&2
	exit 1
fi
