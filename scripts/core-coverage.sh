#!/bin/sh
# Prints how many per cent of the statements of core's deciding packages are reached by core's own
# tests and by the simulator's fixed runs together. Usage: scripts/core-coverage.sh, anywhere.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
of=cadre.dev/core/operation,cadre.dev/core/rollout,cadre.dev/core/policy

# cover FOLDER FLAGS...: the tests of a folder, counted.
cover() {
	folder=$1
	shift
	mkdir "$work/$folder"
	(cd "$root/components/$folder" && go test -count=1 -coverpkg="$of" "$@" -args -test.gocoverdir="$work/$folder") >"$work/log" 2>&1 || {
		cat "$work/log" >&2
		exit 1
	}
}

cover core ./operation/... ./rollout/... ./policy/...
cover simulator -run 'TestSeeds|TestScenarios|TestCrashPoints' .
go tool covdata textfmt -i="$work/core,$work/simulator" -o="$work/profile"
cd "$root/components/core"
go tool cover -func="$work/profile" | awk '/^total:/ { sub(/%/, "", $NF); print $NF }'
