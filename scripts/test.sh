#!/usr/bin/env bash
# Runs the tests of every module with the race detector and prints go test's own
# lines. Skips are listed at the end with their reasons; a skip without a reason fails.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
for dir in proto components/*/; do
	[[ -f $dir/go.mod ]] || continue
	# -p 2: real servers of several packages share two cores.
	(cd "$dir" && go test -race -p 2 -timeout 25m -v ./... 2>&1) |
		tee -a "$log" | grep -E '^(ok|FAIL|---? FAIL|panic:|\?|\s+--- FAIL|.*_test\.go:[0-9]+:)' || true
	((PIPESTATUS[0] == 0)) || status=1
done

passed=$(grep -c -E '^--- PASS' "$log")
failed=$(grep -c -E '^--- FAIL' "$log")
skipped=$(grep -c -E '^--- SKIP' "$log")
if ((skipped > 0)); then
	echo
	echo "skipped, with reasons:"
	# The reason of a skip is the line that go test prints right after its headline.
	grep -A1 -E '^\s*--- SKIP' "$log" | grep -v '^--$'
	if grep -A1 -E '^--- SKIP' "$log" | grep -v -E '^(--|--- SKIP)' | grep -c . | grep -qx 0; then
		echo "test: a test was skipped without a reason" >&2
		status=1
	fi
fi
echo
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0)) || status=1
exit $status
