#!/usr/bin/env bash
# Runs the tests of every module in lanes, and prints a report at the end: the slowest packages and tests, every skip with
# its reason, and every failure. A skip without a reason fails. All output is kept in .out/test.log.
#
#   test.sh fast   pure functions and virtual time, without the race detector: run it before each commit
#   test.sh race   every package whose tests need no cluster, with the race detector
#   test.sh real   real Consul, PostgreSQL, Patroni, etcd, NATS, Redis and networks; whole clusters
#   test.sh        all three lanes, and seeds of the simulator that follow from the commit
#   test.sh long   all of that with the race detector in `real` too, and two minutes of new seeds
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# Packages that run real clusters, OpenTofu or the lab. The machine may cause a failure there:
# up to three failed tests in all run once more. The report lists a test that passes then as
# flaky, which is a defect. Other tests run once.
#
# These packages wait most of the time, so two run at once. The longest begin first.
clusters=(
	./components/demo/e2e
	./components/agent/internal/driver
	./components/terraform-provider/internal/provider
	./components/overlay/labtest/...
	./components/demo/e2e_demo
	./components/demo/e2e_etcd
	./components/demo/e2e_nats
	./components/demo/e2e_redis
	./components/demo/e2e_backup
	./components/demo/e2e_terraform
	./components/consulproxy
	./components/coordinator
	./components/local/internal/daemon
	./components/overlay/internal/punch
	./components/coordinator/internal/secrets
	./components/adapters/nats
	./components/coordinator/internal/supervise
	./components/lab/natlab
	./components/local/internal/fabric
)
# These packages take a minute and more each. They begin first, so that no package runs alone at the end.
longest=(
	./components/coordinator/internal/admission
	./components/coordinator/internal/reconcile
	./components/agent/internal/agent
	./components/simulator
	./components/overlay
)
# Pure functions, some with long properties. Without a goroutine the race detector finds nothing
# in these packages, and makes them five to ten times slower. Tests of their callers run them
# under the detector. scripts/sequential fails when a package begins a goroutine.
sequential=(
	./components/core/...
	./components/attest/statement
	./components/bench/internal/table
	./components/cli/internal/{diff,osimage}
	./components/compose/lint
	./components/demo/internal/{leak,threattests}
	./components/figures
	./components/images/internal/{bom,deb,recipe,tree,wheel}
	./components/local/internal/{appcompose,compose,durable,envelope,images,rootfs}
	./components/logging
	./components/overlay/internal/{bbr,frame,identity,link,stunaddr}
	./components/overlay/internal/underlay/paths
	./components/simulator/plan
	./components/simulator/cmd/core-mutants
	./components/terraform-provider/internal/shape
	./scripts/{arrows,declared,links,sequential,testreport}
)
# Some tests of these packages use virtual time, others run real software or wait: they belong to the race lane.
waiting=(
	./components/agent/internal/agent
	./components/agent/internal/pooler
	./components/coordinator/internal/server
	./components/coordinator/internal/tokens
	./components/coordinator/internal/xds
	./components/store/storetest
)

# Cached results are off: Go does not see a change of the programs that a test runs.
flags=(-json -count=1 -timeout 25m)
# Everything has two builds: one for the race detector, and the build of `make build`. Without
# paths in them, both serve every clone of the repository.
plain=(env CGO_ENABLED=0 GOFLAGS=-trimpath)
raced=(env GOFLAGS=-trimpath)
# `make check` runs vet, and a stack trace needs no DWARF.
flags+=(-vet=off -ldflags=-w)

# `make check` runs this check of the list above too.
if [[ ${1:-} == sequential ]]; then
	mapfile -t folders < <(go list -e -f '{{.Dir}}' "${sequential[@]}")
	exec "${plain[@]}" go run ./scripts/sequential "${folders[@]}"
fi
# gotestsum calls this for the packages of clusters: once for all, then once for each repeated
# test, with the name of the test and its package.
if [[ ${1:-} == clusters ]]; then
	shift
	build=("${plain[@]}") race=()
	[[ -z ${CADRE_RACE_REAL:-} ]] || build=("${raced[@]}") race=(-race)
	(($# == 0)) || exec "${build[@]}" go test "${flags[@]}" "${race[@]}" "$@"
	exec "${build[@]}" go test "${flags[@]}" "${race[@]}" -p 2 "${clusters[@]}"
fi

lanes=${1:-all}
[[ $lanes =~ ^(fast|race|real|all|long)$ ]] || {
	echo "test.sh: no lane $lanes; there are fast, race, real, all and long" >&2
	exit 2
}

mapfile -t modules < <(printf './%s/...\n' proto scripts && dirname components/*/go.mod components/*/*/go.mod | sed 's|.*|./&/...|')
# With -e the list includes packages that fail to build, whose tests then fail.
special=$(go list -e "${clusters[@]}" "${longest[@]}" "${sequential[@]}") || exit 1
all=$(go list -e "${modules[@]}") || exit 1
mapfile -t others < <(go list -e "${longest[@]}" && grep -vxF "$special" <<<"$all")

mkdir -p .out
rm -rf .out/test-*.json .out/test.log .out/test-failed
mkdir .out/test-failed # one file for each lane that failed, named as the file of its events
run() {
	local events=$1
	shift
	gotestsum --format pkgname-and-test-fails --format-icons text --format-hide-empty-pkg --hide-summary all \
		--jsonfile "$events" "$@" || touch ".out/test-failed/${events##*/}"
}

fast() {
	local bubbles slow virtual
	# With virtual time, or with tests that leave cases out under the race detector.
	# shellcheck disable=SC2016 # a template of go list
	bubbles=$(go list -e -test -f '{{$of := .ForTest}}{{range .Deps}}{{if or (eq . "testing/synctest") (eq . "cadre.dev/raced")}}{{$of}}{{"\n"}}{{end}}{{end}}' "${others[@]}") || exit 1
	slow=$(go list -e "${waiting[@]}") || exit 1
	mapfile -t virtual < <(printf '%s\n' "${others[@]}" | grep -xF "$bubbles" | grep -vxF "$slow")
	run .out/test-fast.json --raw-command -- "${plain[@]}" go test "${flags[@]}" -p 2 "${virtual[@]}" "${sequential[@]}"
}
# Tests that wait run four at once in their package.
race() { run .out/test-race.json --raw-command -- "${raced[@]}" go test "${flags[@]}" -race -p 2 -parallel 4 "${others[@]}"; }
real() {
	run .out/test-real.json --rerun-fails=1 --rerun-fails-max-failures=3 --rerun-fails-run-root-test \
		--rerun-fails-abort-on-data-race --raw-command -- scripts/test.sh clusters
}
# Whole clusters in virtual time: seeds NUMBER FIRST; with FIRST 0 the seeds are new.
seeds() {
	run .out/test-seeds.json --raw-command -- "${plain[@]}" GOGC=2000 go test "${flags[@]}" -run 'TestFreshSeeds$' \
		./components/simulator -fresh "${CADRE_FRESH_SEEDS:-$1}" -fresh-from "${CADRE_FRESH_FROM:-$2}"
	grep -o 'fresh seeds from [0-9]*: [^"\]*' .out/test-seeds.json
}

# First, since a reader would overlook the failure among the output of all tests.
scripts/test.sh sequential || exit 1
case $lanes in
fast | race | real) "$lanes" ;;
all | long)
	fast
	if [[ $lanes == long ]]; then
		export CADRE_RACE_REAL=1 CADRE_TEST_CLUSTERS=1
		seeds 200 0
	else
		# The seeds follow from the commit, so that a second run of the commit has the same result.
		seeds 64 "$((16#$(git rev-parse --short=12 HEAD)))"
	fi
	race
	real
	;;
esac
# CI sets a budget for the whole run. A run next to other work may exceed it.
budget=0
[[ $lanes != all ]] || budget=${CADRE_TEST_BUDGET:-0}
"${plain[@]}" go run ./scripts/testreport -log .out/test.log -took "${SECONDS}s" -budget "$budget" .out/test-*.json || exit 1
# A failure outside of any test must show, too.
broken=$(ls .out/test-failed)
if [[ -n $broken ]]; then
	echo "failed, though no test did: what wrote .out/${broken//$'\n'/ .out/}; what it said is above" >&2
	exit 1
fi
