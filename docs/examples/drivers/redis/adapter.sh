#!/bin/sh
# adapter.sh member|transfer|drain|undrain is the adapter of a Redis server that has a Sentinel next to it.
# redis.sh starts both. The Sentinels are the voters: a majority of them replaces a lost primary.
# shellcheck disable=SC2016 # the programs of jq have variables of their own
set -eu
self=$CADRE_SLOT at=$CADRE_VIP port=${REDIS_PORT:-6379} sentinels=${SENTINEL_PORT:-26379}

answer() { jq -nce "$@" >&"$CADRE_ANSWER_FD"; }
end() { # CODE REASON: 75 busy, 65 unsafe, everything else: the effect is unknown
	echo "$2" >&"$CADRE_REASON_FD"
	exit "$1"
}
# Lines of ADDRESS SLOT: Redis names members by their addresses.
hosts=$(cat "$REDIS_DIR/peers" 2>/dev/null) || end 1 "redis.sh waits for the addresses of all members"
ask() { timeout "${PATIENCE:-0.5}" redis-cli -3 --json -h "$@" 2>&1; } # the agent waits 1.8 s for the whole command
server() { ask "$1" -p "$port" INFO server replication persistence; }
order() { [ "$(ask "$at" -p "$port" "$@")" = '"OK"' ]; }
sentinel() { ask "$at" -p "$sentinels"; } # commands on standard input
of() { sed -n "s/^$1:\([^\r]*\).*/\1/p"; } # FIELD: its value in the text of INFO
nl='
'
slot() { # ADDRESS; without a process: the agent asks about every second
	case $nl$hosts in *"$nl$1 "*) rest=$nl$hosts rest=${rest#*"$nl$1 "} && echo "${rest%%"$nl"*}" ;; esac
}
address() {
	case $hosts$nl in *" $1$nl"*) rest=$hosts$nl rest=${rest%%" $1$nl"*} && echo "${rest##*"$nl"}" ;; esac
}
named() { # REPLY: the member in ["ADDRESS","PORT"]
	rest=${1#*\"} && slot "${rest%%\"*}"
}
# primary prints the Sentinel's primary, also while the failover goes on; nothing while it has none.
primary() { named "$(echo SENTINEL GET-MASTER-ADDR-BY-NAME cadre | sentinel)"; }

# look reads the Sentinel, the primary that it names, and then this server: a replica whose offset is not below
# the primary's earlier one has caught up.
look() {
	voters=$(printf 'SENTINEL %s cadre\n' GET-MASTER-ADDR-BY-NAME CKQUORUM MASTER SENTINELS REPLICAS | sentinel) || voters=
	leader=$(named "$voters")
	writer=
	[ -z "$leader" ] || writer=$(server "$(address "$leader")") || writer=
	code=0
	own=$(server "$at") || code=$?
	liveness=alive
	case $code,$own in
	0,*) ;;
	1,*refused*) liveness=refused own= ;; # the only proof that no process listens
	*) liveness=unknown own= ;;
	esac
}

# judge prints the member as JSON.
judge() {
	jq -nc --arg self "$self" --arg leader "$leader" --arg liveness "$liveness" --arg own "$own" --arg writer "$writer" \
		--arg voters "$voters" --arg hosts "$hosts" '
		def fields: [(. / "\r\n")[] / ":" | select(length == 2) | {key: .[0], value: .[1]}] | from_entries;
		($hosts | [(. / "\n")[] / " " | {key: .[0], value: .[1]}] | from_entries) as $slots |
		($own | fields) as $o | ($writer | fields) as $p |
		($voters / "\n" | map(fromjson? // null) | {quorum: .[1], master: .[2], others: (.[3] // []), replicas: (.[4] // [])}) as $s |
		# The replicas as the primary sees them: slave0:ip=...,state=online,offset=...,lag=0
		[$p | to_entries[] | select(.value | startswith("ip=")) | .value | [(. / ",")[] / "=" | {key: .[0], value: .[1]}] | from_entries] as $replicas |
		[$replicas[] | select(.state == "online" and (.lag | tonumber) < 5) | $slots[.ip] // .ip] as $online |
		# The replicas that the Sentinel has asked; a drained one has the priority 0.
		[$s.replicas[] | select(.flags == "slave" and .["master-host"] != "?")] as $asked |
		[$asked[] | select(.["slave-priority"] != "0") | $slots[.ip] // .ip] as $fit |
		[$replicas[] | select(.state != "online") | "\($slots[.ip] // .ip) copies the data"] as $copying |
		($o.role == "master") as $writes | ($leader == $self) as $named |
		($o.role == "slave" and $o.master_link_status == "up" and ($slots[$o.master_host] // "") == $leader) as $follows |
		# What a ready member lacks; the first one is reported.
		[ (if $liveness == "refused" then "no process listens" else empty end),
		  (if $liveness == "unknown" then "the server does not answer" else empty end),
		  (if $s.master == null then "the Sentinel of this member does not answer" else empty end),
		  (if $s.quorum // "" | startswith("OK") | not then "too few Sentinels answer for a failover" else empty end),
		  (if $o.loading == "1" then "the server loads its data" else empty end),
		  (if $leader == "" then "the address of the primary is no member" else empty end),
		  (if $writes and ($named | not) then "the server writes, and the Sentinels name \($leader)" else empty end),
		  (if $named and ($writes | not) then "the Sentinels name this server, and it is a replica" else empty end),
		  (if $named or $follows then empty else "the link to the primary is down" end) ] as $lacks |
		# Without this member, one current replica must be left: for the writes, and to take over.
		[ (if $lacks | length == 0 then empty elif $follows or $writes or $liveness != "alive" then $lacks[0] else empty end),
		  (if $liveness == "alive" and ($online - [$self] | length) == 0 then "no other replica is current" else empty end) ] as $stays |
		(if $follows and $p != {} then ($p.master_repl_offset | tonumber) - ($o.slave_repl_offset | tonumber) else null end) as $lag |
		{ role: (if $lacks | length == 0 then (if $named then "leader" else "follower" end) elif $follows then "follower" else "unknown" end),
		  liveness: $liveness, ready: ($lacks | length == 0), leader: $leader, may_disrupt: ($stays | length == 0),
		  epoch: ($s.master["config-epoch"] // "0" | tonumber),
		  voters: ([$self] + [$s.others[] | $slots[.ip] // .ip] | sort), version: ($o.redis_version // ""),
		  busy: ($copying + [($online - [$asked[] | $slots[.ip] // .ip])[] | select($named) | "the Sentinel has not asked \(.) yet"] + if $s.master.flags // "" | test("failover_in_progress") then ["a failover is under way"] else [] end) }
		+ (if $lacks == [] then {} else {message: $lacks[0]} end)
		+ (if $stays == [] then {} else {may_disrupt_reason: $stays[0]} end)
		+ (if $lag != null then {lag_bytes: ([$lag, 0] | max), caught_up: ($lag <= 0)} elif $lacks == [] and $named then {caught_up: true} else {} end)
		+ (if $lacks == [] and $named then {followers: ([$online[] | select(. as $one | $fit | index($one))] | sort)} else {} end)'
}

case $1 in
member)
	look
	judge >&"$CADRE_ANSWER_FD"
	;;
transfer)
	request=$(jq -ce 'if keys == ["candidates", "expected_leader"] then . else error end') || end 64 "unknown request"
	look
	member=$(judge)
	[ -n "$leader" ] || end 1 "the primary is not known"
	if [ "$leader" != "$self" ]; then # success: it does not lead
		answer --argjson m "$member" '{ moved: false, leader: $m.leader, epoch: $m.epoch }'
		exit
	fi
	# The Sentinel chooses among all replicas: each current one must be a candidate.
	verdict=$(jq -nr --argjson r "$request" --argjson m "$member" '
		if $r.expected_leader != $m.leader then "65 another leader is expected"
		elif $m.role != "leader" then "75 \($m.message)"
		elif $m.busy != [] then "75 \($m.busy[0])"
		elif [$m.followers[] | select(. as $f | $r.candidates | index($f))] == [] then "65 no candidate is a current replica"
		elif $m.followers - $r.candidates != [] then "75 the Sentinel could choose \(($m.followers - $r.candidates)[0]), which is no candidate"
		else "0 " end')
	[ "${verdict%% *}" = 0 ] || end "${verdict%% *}" "${verdict#* }"
	# A Sentinel leaves the old primary writing for seconds, and a replica that still follows it confirms these
	# writes (WAIT), which are then lost. So it writes no more before the failover; the pause ends by itself.
	trap 'order CLIENT UNPAUSE || true' EXIT
	until=$(($(date +%s) + 20))
	in_time() { [ "$(date +%s)" -lt "$until" ]; }
	order CLIENT PAUSE 30000 WRITE || end 1 "the primary cannot be paused"
	wants=$(server "$at" | of master_repl_offset)
	for follower in $(echo "$member" | jq -r '.followers[]'); do
		until has=$(server "$(address "$follower")" | of slave_repl_offset) && [ "${has:-0}" -ge "$wants" ]; do
			in_time || end 75 "$follower does not catch up"
			sleep 0.05
		done
	done
	case $(echo SENTINEL FAILOVER cadre | sentinel) in
	*OK*) ;;
	*INPROG* | *NOGOODSLAVE*) end 75 "the Sentinel refuses a failover now" ;;
	*) end 1 "the Sentinel does not confirm the failover" ;;
	esac
	# A Sentinel gives a failover up after its failover-timeout, 10 s. At once what it does ten seconds after the end:
	# the old primary follows the new one.
	until to=$(primary) && [ -n "$to" ] && [ "$to" != "$self" ] && order REPLICAOF "$(address "$to")" "$port"; do
		in_time || end 1 "no replica was promoted"
		sleep 0.05
	done
	order CLIENT UNPAUSE || true
	# The Sentinel reports the new epoch when all replicas follow the new primary.
	until look && member=$(judge) && echo "$member" | jq -e --arg to "$to" '.leader == $to and .busy == []' >/dev/null; do
		in_time || end 1 "the failover does not end"
		sleep 0.1
	done
	answer --argjson m "$member" '{ moved: true, leader: $m.leader, epoch: $m.epoch }'
	;;
drain) # no Sentinel promotes it; a start of the server ends that
	order CONFIG SET replica-priority 0 || end 1 "the server does not answer"
	;;
undrain)
	order CONFIG SET replica-priority 100 || end 1 "the server does not answer"
	;;
*) end 64 "no such command" ;;
esac
