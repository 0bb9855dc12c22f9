# shellcheck shell=bash
# What the steps of scripts/mixed/suites have in common. A VERSION is `previous` or `current`.
set -Eeuo pipefail
trap 'printf "    failed: %s, in line %s of %s\n" "$BASH_COMMAND" "$LINENO" "${BASH_SOURCE[0]##*/}" >&2' ERR

root=${MIXED_ROOT:?run scripts/mixed/run.sh SUITE, which sets the folders of a step}
previous=$MIXED_PREVIOUS
state=$MIXED_STATE

say() { printf '    %s\n' "$*"; }
fail() {
	printf '    failed: %s\n' "$*"
	exit 1
}

# tree VERSION prints the folder of a version's files, programs and images.
tree() {
	case $1 in
	current) printf '%s\n' "$root" ;;
	previous) printf '%s\n' "$previous" ;;
	*) fail "version $1 is neither current nor previous" ;;
	esac
}

# cadre VERSION ARGUMENT... runs the command line of a version.
cadre() {
	local program
	program=$(tree "$1")/bin/cadre
	CADRE_CONTEXT=$state/context.json NO_COLOR=1 "$program" "${@:2}"
}

# cloud_fact NAME prints a value of the local cloud's description.
cloud_fact() { jq -er ".$1" "$state/cloud/cloud.json"; }

# image VERSION NAME prints the pinned reference of an image.
image() {
	local found
	found=$(jq -er --arg name "$2:" '.manifests[] | (.annotations["org.opencontainers.image.ref.name"] // "") as $ref |
		select($ref | startswith($name)) | $ref + "@" + .digest' "$(tree "$1")/.out/images/index.json") || fail "version $1 has no image $2"
	printf '%s/%s\n' "$(jq -er .registry "$state/up.json")" "$found"
}

# await SECONDS WHAT COMMAND... repeats a command until it succeeds.
await() {
	local until=$((SECONDS + $1)) what=$2
	shift 2
	until "$@" >"$state/await.log" 2>&1; do
		((SECONDS < until)) || {
			cat "$state/await.log"
			fail "$what did not happen in time"
		}
		sleep 1
	done
}

# start_cluster CLI COORDINATORS starts the cloud, and three coordinators of version COORDINATORS with the command line
# of version CLI. The files of the cluster are the previous version's: an upgrade changes nothing but the image.
start_cluster() {
	local coordinator
	cadre current -o json local up --state "$state/cloud" --boot-delay 1s --layout "$root/.out/mixed/images" \
		--image-store "$root/.out/image-store" >"$state/up.json"
	cadre "$1" --context "$state/context.json" cluster create --var "cloud=$state/cloud/cloud.json" \
		--var "coordinator_image=$(image "$2" cadre-coordinator)" "$previous/clusters/light/cluster.hcl" >"$state/create.log" 2>&1 ||
		fail "cadre cluster create: $(cat "$state/create.log")"
	for coordinator in 0 1 2; do echo "$2" >"$state/coordinator-$coordinator"; done
	await 60 "a healthy set of coordinators" whole current
	say "three coordinators of the $2 version answer"
}

# apply CLI AGENT FLAG... changes the group's spec with the command line of version CLI, to a new release with agents of
# version AGENT, and waits for its rollout.
apply() {
	local release
	release=$(($(cat "$state/release" 2>/dev/null || echo 0) + 1))
	echo "$release" >"$state/release"
	echo "$2" >"$state/agent"
	cadre "$1" group apply --wait --timeout 10m --var "cloud=$state/cloud/cloud.json" --var "context=$state/context.json" \
		--var "agent_image=$(image "$2" cadre-agent)" --var "light_image=$(image current light)" --var "release=$release" \
		"${@:3}" "$previous/clusters/light/light.hcl" >"$state/roll.log" 2>&1
}

# roll CLI AGENT applies a release. It waits until each member runs the new revision and is available.
roll() {
	apply "$1" "$2" || fail "release $(cat "$state/release"): $(tail -n 40 "$state/roll.log")"
	say "release $(cat "$state/release") with agents of the $2 version is complete, applied by the $1 command line, led by $(leader)"
}

# fail_and_undo CLI applies a release that never gets healthy, and undoes it under the same deadline. Both versions read
# the records of the failed rollout.
fail_and_undo() {
	if apply "$1" "$(cat "$state/agent")" --var port=8081 --var healthy_deadline=30s; then
		fail "a release that answers at another port is complete"
	fi
	await 60 "the failure of the rollout" failed
	readable current
	readable previous
	cadre "$1" rollout undo light --yes --wait --timeout 5m >"$state/undo.log" 2>&1 || fail "undo: $(tail -n 40 "$state/undo.log")"
	say "release $(cat "$state/release") failed, and the $1 command line undid it; led by $(leader)"
}

# failed succeeds once the rollout of the group failed.
failed() { cadre current -o json group list | jq -e '.[] | select(.group == "light") | .rollout_state == "FAILED"'; }

# leader prints the coordinator that leads, or nothing.
leader() { cadre current -o json cluster status 2>/dev/null | jq -r '.coordinator.leader // empty'; }

# whole VERSION succeeds if a coordinator leads, and if the command line of a version gets a proof from each coordinator
# and sees no problem.
whole() {
	local seen
	seen=$(cadre "$1" -o json cluster status)
	jq -e '(.coordinator.leader // "") != "" and (.coordinators | length) == 3 and (.problems // [] | length) == 0' <<<"$seen" || {
		jq '{coordinator, coordinators, problems}' <<<"$seen"
		return 1
	}
}

# voters COORDINATOR succeeds if Consul there knows a leader and three voters.
voters() {
	(($(consul "$1" "operator raft list-peers" | grep -cw true) == 3))
}

# consul COORDINATOR COMMAND ARGUMENT... runs a command of Consul's tool in a coordinator with the operator's token.
consul() {
	local command
	read -ra command <<<"$2"
	cadre current local exec --state "$state/cloud" --service coordinator "demo-$1" -- \
		consul "${command[@]}" -token="$(jq -er .token "$state/context.json")" "${@:3}"
}

# set_coordinator COORDINATOR VERSION changes the version of one coordinator on its disk, and waits until it takes part
# again. This is the procedure of docs/runbooks/maintenance.md, by the calls of the platform.
set_coordinator() {
	local cvm=demo-$1 new old mark hash
	new=$(image "$2" cadre-coordinator)
	api GET "/cvms/$cvm/compose_file" >"$state/document.json"
	old=$(jq -er .docker_compose_file "$state/document.json" | grep -oE 'revision-mark=[0-9a-f]{64}' | head -n 1)
	# The text has its own digest as its mark, so another image needs another mark.
	jq --arg image "$new" --arg old "${old#*=}" '.docker_compose_file |= (gsub($old; "CADRE_REVISION_MARK") |
		sub("image: \\S*/cadre-coordinator:\\S*"; "image: " + $image))' "$state/document.json" >"$state/unmarked.json"
	mark=$({
		printf 'cadre/mark/v1\n'
		jq -j .docker_compose_file "$state/unmarked.json"
	} | sha256sum)
	jq --arg mark "${mark%% *}" '.docker_compose_file |= gsub("CADRE_REVISION_MARK"; $mark)' "$state/unmarked.json" >"$state/document.json"
	hash=$(api POST "/cvms/$cvm/compose_file/provision" -d "@$state/document.json" | jq -er .compose_hash)
	jq --arg hash "$hash" '.coordinator_compose_hashes |= (. + [$hash] | unique)' "$state/context.json" >"$state/context.new"
	cat "$state/context.new" >"$state/context.json" # its mode stays
	api PATCH "/cvms/$cvm/compose_file" -d "{\"compose_hash\": \"$hash\"}" >/dev/null
	echo "$2" >"$state/$1"
	await 120 "the boot of $1 with compose hash $hash" runs "$cvm" "$hash"
	await 120 "$1 in the set of coordinators" voters "$1"
	await 120 "a healthy set of coordinators" whole current
	say "$1 runs the $2 version: $(cat "$state/coordinator-0" "$state/coordinator-1" "$state/coordinator-2" | paste -sd ' ')"
}

# api METHOD PATH ARGUMENT... calls the platform.
api() {
	curl -sS --fail-with-body -X "$1" -H "X-API-Key: $(cloud_fact api_key)" -H 'X-Phala-Version: 2026-01-21' \
		-H 'Content-Type: application/json' "${@:3}" "$(cloud_fact api_url)$2"
}

# runs CVM HASH succeeds if the platform shows that the CVM runs the document.
runs() {
	cadre current -o json cluster status | jq -e --arg cvm "$1" --arg hash "$2" \
		'any(.cvms[]; .Name == $cvm and .Status == "running" and .ComposeHash == $hash)'
}

# lead VERSION restarts leaders until a coordinator of the version leads. The next leader is the first one to take the
# lock, so several turns can be necessary.
lead() {
	local turn leads
	for turn in {1..20}; do
		leads=$(leader)
		if [[ -n $leads && $(cat "$state/$leads") == "$1" ]]; then
			say "$leads leads, of the $1 version, after $((turn - 1)) restarts of leaders"
			return
		fi
		[[ -n $leads ]] || {
			sleep 1
			continue
		}
		restart_coordinator "$leads"
	done
	fail "no coordinator of the $1 version leads after 20 turns"
}

# restart_coordinator COORDINATOR stops a coordinator's CVM, waits for another leader, and starts the CVM.
restart_coordinator() {
	cadre current local stop --state "$state/cloud" "demo-$1" >/dev/null
	await 60 "another leader than $1" led_by_another "$1"
	await 60 "the stop of $1" stopped "$1"
	cadre current local start --state "$state/cloud" "demo-$1" >/dev/null
	await 120 "$1 in the set of coordinators" voters "$1"
	await 120 "a healthy set of coordinators" whole current
}

stopped() { cadre current -o json cluster status | jq -e --arg cvm "demo-$1" 'any(.cvms[]; .Name == $cvm and .Status == "stopped")'; }

led_by_another() {
	local now
	now=$(leader)
	[[ -n $now && $now != "$1" ]]
}

# boots prints the boot of each member.
boots() { cadre current -o json instance list light | jq -c 'map([.slot, .boot_id])'; }

# check WHAT... checks everything that must hold between two steps: the group is available and at its target, the
# command lines of both versions answer, and each version that coordinators run reads every record.
check() {
	local version
	for version in previous current; do
		await 120 "an available group, seen by the $version command line" available "$version"
		await 60 "a healthy set of coordinators, seen by the $version command line" whole "$version"
		cadre "$version" group list >/dev/null
		cadre "$version" group describe light >/dev/null
		cadre "$version" instance list light >/dev/null
		cadre "$version" rollout history light >/dev/null
		cadre "$version" operation list >/dev/null
		cadre "$version" overlay status >/dev/null
		cadre "$version" rollout plan light | grep -q 'nothing to do' || fail "the $version command line sees a plan: $(cadre "$version" rollout plan light)"
	done
	readable current
	readable previous
	say "the group is available, both command lines answer, both versions read all records"
}

# available VERSION succeeds if the command line of a version sees three available members at the target.
available() {
	cadre "$1" -o json group list |
		jq -e '.[] | select(.group == "light") | .available == 3 and .updated == 3 and .rollout_state == "COMPLETE"'
}

# readable VERSION reads every record with the decoder of a version. scripts/mixed/new-records names the records that
# the previous version may reject, each with its reason.
readable() {
	local bad known
	consul coordinator-0 "kv export" cadre/v1/ >"$state/records.json"
	bad=$("$(tree "$1")/.out/unreadable" <"$state/records.json") && return
	[[ -n $bad ]] || fail "the records cannot be read: $(head -c 300 "$state/records.json")"
	if [[ $1 == previous ]]; then
		known=$(grep -v '^#' "$root/scripts/mixed/new-records" | cut -f 1)
		bad=$(grep -vE "${known:-^$}" <<<"$bad") || return 0
	fi
	fail "the $1 version rejects records: $bad"
}

# roll_past_leader rolls the group, and restarts the leader during the rollout.
roll_past_leader() {
	local rollout
	roll current previous &
	rollout=$!
	await 60 "the first step of the rollout" rolling
	restart_coordinator "$(leader)"
	wait "$rollout"
}

# rolling succeeds while a rollout of the group is at work.
rolling() { cadre current -o json group list | jq -e '.[] | select(.group == "light") | .rollout_state == "RUNNING" and .updated < 3'; }

# operations lets the leader drain, restart and replace members, sets and lifts an override, cuts the power of a member, and
# fails a rollout.
operations() {
	local boot
	cadre previous instance drain light-0 --for 10m --reason "drained by the test" --wait >/dev/null
	cadre current instance undrain light-0 >/dev/null
	await 120 "light-0 back in service" available current
	cadre current instance restart light-1 --reason "restarted by the test" --wait >/dev/null
	await 120 "light-1 back in service" available current
	cadre previous freeze light --for 10m --reason "frozen by the test" >/dev/null
	cadre current overrides | grep -q light || fail "the freeze of the previous command line is not listed: $(cadre current overrides)"
	cadre current unfreeze light >/dev/null
	boot=$(boot_of light-2)
	cadre current local fault kill --state "$state/cloud" demo-light-2 >/dev/null
	cadre current local start --state "$state/cloud" demo-light-2 >/dev/null
	await 120 "another boot of light-2" booted light-2 "$boot"
	await 120 "light-2 back after the loss of its power" available current
	boot=$(boot_of light-1)
	cadre current instance replace light-1 --yes --reason "replaced by the test" --wait >/dev/null
	await 120 "another boot of light-1" booted light-1 "$boot"
	await 120 "light-1 back after its replacement" available current
	say "a drain, a restart, a freeze, the power cut and the replacement of a member are done"
	fail_and_undo previous
	fail_and_undo current
}

boot_of() { cadre current -o json instance list light | jq -er --arg slot "$1" '.[] | select(.slot == $slot) | .boot_id'; }

# booted SLOT BOOT succeeds once another boot than BOOT is admitted.
booted() { [[ $(boot_of "$1") != "$2" ]]; }

# upgrade_coordinators VERSION changes all coordinators by `cadre cluster upgrade` of the current command line.
upgrade_coordinators() {
	local coordinator
	cadre current --context "$state/context.json" cluster upgrade --confirm demo --timeout 20m --var "cloud=$state/cloud/cloud.json" \
		--var "coordinator_image=$(image "$1" cadre-coordinator)" "$previous/clusters/light/cluster.hcl" >"$state/upgrade.log" 2>&1 ||
		fail "cadre cluster upgrade: $(tail -n 40 "$state/upgrade.log")"
	for coordinator in 0 1 2; do echo "$1" >"$state/coordinator-$coordinator"; done
	say "cadre cluster upgrade brought all coordinators to the $1 version"
}
