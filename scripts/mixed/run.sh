#!/usr/bin/env bash
# Runs Cadre with two versions side by side: the previous version, built from this repository's history, and the version
# of the working tree. Each folder of scripts/mixed/suites is a suite, and each file in it is a step, run in the order of
# the names. A suite has a local cloud of its own, which is removed afterwards, also after a failure.
#
#   run.sh                 all suites (root; called by `make test-mixed`)
#   run.sh SUITE...        these suites only
#   run.sh build           builds the previous version and stops
#
# PREVIOUS=<commit> compares with another version. Its build stays in .out/mixed/<commit> for the next run.
set -euo pipefail
# CVMs run the programs as users of their own.
umask 022

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$root/.out/mixed
# The last commit before coordinators were upgraded by a command.
wanted=${PREVIOUS:-508e10d58e4256db1be90493845bbef39db4df8f}
images=cadre-agent,cadre-coordinator

die() {
	printf 'mixed: %s\n' "$@" >&2
	exit 1
}

# build_previous builds programs and images of the previous version in a folder of its own.
build_previous() {
	local began=$SECONDS
	if [[ ! -e $previous/go.work ]]; then
		mkdir -p "$previous.part"
		GIT_INDEX_FILE=$previous.index git -C "$root" read-tree "$commit"
		GIT_INDEX_FILE=$previous.index git -C "$root" checkout-index --all --force --prefix="$previous.part/"
		# Fetched files are named by their digests, so both versions share them.
		mkdir -p "$previous.part/.tools" "$root/.tools/images"
		ln -sfn "$root/.tools/images" "$previous.part/.tools/images"
		mv "$previous.part" "$previous"
	fi
	mkdir -p "$previous/components/store/internal/unreadable"
	cp "$root/components/store/internal/unreadable/main.go" "$previous/components/store/internal/unreadable/"
	# The outer repository is not the source of these files, so Go must not name its commit.
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u ONLY GOFLAGS=-buildvcs=false make -s -C "$previous" build images \
		VERSION=previous IMAGE_VERSION=previous IMAGE_SOURCE="$commit" ONLY="$images" >"$out/build.log" 2>&1 ||
		die "the previous version $commit does not build; see $out/build.log"
	printf 'mixed: the previous version %.8s is built after %d s\n' "$commit" $((SECONDS - began))
}

# readers builds the command that lists unreadable records, in both versions.
readers() {
	local tree
	for tree in "$root" "$previous"; do
		(cd "$tree" && CGO_ENABLED=0 GOFLAGS='-trimpath -buildvcs=false' go build -o "$tree/.out/unreadable" ./components/store/internal/unreadable)
	done
}

# merge_images makes one layout of both versions' images, since a cloud serves one layout.
merge_images() {
	local tree
	rm -rf "$out/images"
	mkdir -p "$out/images/blobs/sha256"
	cp "$root/.out/images/oci-layout" "$out/images/"
	for tree in "$root" "$previous"; do cp -lf "$tree/.out/images/blobs/sha256/"* "$out/images/blobs/sha256/"; done
	jq -s '.[0] + {manifests: (map(.manifests[]) | map(select(.annotations)))}' \
		"$root/.out/images/index.json" "$previous/.out/images/index.json" >"$out/images/index.json"
}

# clean removes the cloud of the running suite.
clean() {
	[[ -n ${state:-} && -e $state ]] || return 0
	"$root/bin/cadre" local down --state "$state/cloud" >/dev/null || true
	rm -rf "$state"
}

# run SUITE runs the steps of a suite.
run() {
	local suite=$1 began=$SECONDS step at
	state=$out/state
	clean # of a run that was killed
	rm -rf "$out/failed/$suite"
	mkdir -p "$state"
	printf '%s\n' "$suite"
	for step in "$root/scripts/mixed/suites/$suite"/[0-9]*; do
		at=$SECONDS
		printf '  %s\n' "${step##*/}"
		if ! MIXED_ROOT=$root MIXED_PREVIOUS=$previous MIXED_STATE=$state "$step" 2>&1 | tee "$state/step.log"; then
			keep "$suite" "${step##*/}"
			clean
			return 1
		fi
		printf '    took %d s\n' $((SECONDS - at))
	done
	clean
	printf '  passed after %d s\n' $((SECONDS - began))
}

# keep saves the logs of a failed suite.
keep() {
	local kept=$out/failed/$1 log
	rm -rf "$kept"
	mkdir -p "$kept"
	cp "$state/step.log" "$kept/"
	cp "$state/cloud/cadre-local.log" "$kept/" 2>/dev/null || true
	for log in "$state"/cloud/cvms/*/logs; do
		[[ -d $log ]] || continue
		cp -r "$log" "$kept/$(basename "$(dirname "$log")")"
	done
	printf 'mixed: step %s of suite %s failed; its logs are in %s\n' "$2" "$1" "$kept" >&2
}

commit=$(git -C "$root" rev-parse --verify --quiet "$wanted^{commit}") || die "this clone lacks the previous version $wanted." \
	"A shallow clone has only the newest commits: run \`git fetch --unshallow\`, or name another version with PREVIOUS=<commit>."
previous=$out/$commit
# A wrong name fails before the minutes of a build.
if [[ ${1:-} != build ]]; then
	suites=("$@")
	if ((${#suites[@]} == 0)); then
		for folder in "$root"/scripts/mixed/suites/*/; do suites+=("$(basename "$folder")"); done
	fi
	for suite in "${suites[@]}"; do
		[[ -d $root/scripts/mixed/suites/$suite && $suite != */* ]] || die "no suite is called $suite; there are: $(cd "$root/scripts/mixed/suites" && echo *)"
	done
fi
mkdir -p "$out"
build_previous
[[ ${1:-} != build ]] || exit 0

((EUID == 0)) || die "network namespaces need root: run this as root or with sudo"
[[ -e $root/.out/images/index.json && -x $root/bin/cadre ]] || die "the working tree is not built: run \`make test-mixed\`, or \`make build images\` first"
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
readers
merge_images
failed=()
for suite in "${suites[@]}"; do run "$suite" || failed+=("$suite"); done
((${#failed[@]} == 0)) || die "failed: ${failed[*]}"
printf 'mixed: %d suites passed after %d s, previous version %.8s\n' ${#suites[@]} $SECONDS "$commit"
