#!/usr/bin/env bash
# Runs the tests of every module with the race detector. Prints go test's line of each
# package as it comes, all that a failed package said, and every skip with its reason;
# a skip without a reason fails. All output is kept in .out/test.log.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
mkdir -p .out
exec 3>.out/test.log

passed=0 failed=0 skipped=0 status=0
skips=()             # "package Test: reason"
package=() results=() # of the package being read: what it said; its skips
named=0              # of the package being read: failed tests
test=''              # whose log lines are being read
declare -A reason=() # the last log line of each test

finish() { # what a package's own line says ends it
	local name=$2 line
	if [[ $1 == FAIL ]]; then
		printf '%s\n' "${package[@]}"
		# A panic outside of tests, a race or a build failure is a failure with no test's name.
		((named > 0)) || ((failed++))
		status=1
	fi
	for line in "${results[@]}"; do skips+=("$name $line"); done
	package=() results=() named=0 test='' reason=()
}

read_package() {
	local line tab=$'\t'
	while IFS= read -r line; do
		printf '%s\n' "$line" >&3
		if [[ $line =~ ^===\ (RUN|NAME|CONT|PAUSE)\ +(.*)$ ]]; then
			test=${BASH_REMATCH[2]}
			continue
		elif [[ $line =~ ^\ +[A-Za-z0-9_]+\.go:[0-9]+:\ *(.*)$ ]]; then
			[[ -z $test ]] || reason[$test]=${BASH_REMATCH[1]}
		elif [[ $line =~ ^(\ *)---\ (PASS|FAIL|SKIP):\ ([^ ]+) ]]; then
			local top=$((${#BASH_REMATCH[1]} == 0)) name=${BASH_REMATCH[3]}
			case ${BASH_REMATCH[2]} in
			PASS) ((passed += top)) ;;
			FAIL) ((failed += top, named += top)) ;;
			SKIP)
				((skipped += top))
				results+=("$name: ${reason[$name]:-}")
				;;
			esac
			[[ ${BASH_REMATCH[2]} == FAIL ]] || continue
		elif [[ $line =~ ^(ok|FAIL|\?)\ *$tab([^ $tab]+) ]]; then
			finish "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
			printf '%s\n' "$line"
			continue
		fi
		package+=("$line")
	done
	# What no package's line has ended: go itself could not go on.
	((${#package[@]} == 0)) || printf '%s\n' "${package[@]}"
	package=()
}

for module in proto components/*/ components/*/*/; do
	[[ -f $module/go.mod ]] || continue
	# Real servers of two packages can share two cores; two whole clusters cannot, nor
	# two labs of network namespaces.
	packages=2
	case $module in components/demo/ | components/overlay/labtest/) packages=1 ;; esac
	# No result of an earlier run: Go does not know that a test ran programs of ours, or
	# a Consul, that have changed since.
	read_package < <(cd "$module" && go test -race -count=1 -p "$packages" -timeout 25m -v ./... 2>&1)
	wait $! || status=1
done

if ((${#skips[@]} > 0)); then
	printf '\nskipped, with reasons:\n'
	for line in "${skips[@]}"; do
		printf '  %s\n' "$line"
		if [[ $line =~ :\ *$ ]]; then
			echo "test: skipped without a reason: $line" >&2
			status=1
		fi
	done
fi
printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
((failed == 0)) || status=1
exit "$status"
