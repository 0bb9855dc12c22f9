#!/bin/sh
# adapter.sh member|transfer|drain|undrain is an adapter in shell, of a workload whose admin API is at
# ADMIN. It needs curl and jq. Declare it in the compose file:
#   x-cadre: { exec: { member: [/etc/adapter.sh, member], transfer: [/etc/adapter.sh, transfer], ... } }
# shellcheck disable=SC2016 # the programs of jq have variables of their own
set -eu
api=$ADMIN self=$CADRE_SLOT

answer() { jq -ce "$@" >&"$CADRE_ANSWER_FD"; }
end() { # CODE REASON: 75 busy, 65 unsafe, everything else: the effect is unknown
	echo "$2" >&"$CADRE_REASON_FD"
	exit "$1"
}
call() { curl -sSf --max-time 1 "$@"; } # the agent waits 1.8 s for the whole command

case $1 in
member)
	code=0
	status=$(call "$api/status") || code=$?
	case $code in
	0) echo "$status" | answer --arg self "$self" '
		{ role: (if .leader == $self then "leader" else "follower" end), liveness: "alive",
		  ready: (.leader != ""), caught_up: .synced, leader: .leader, epoch: .term, voters: .members,
		  may_disrupt: (.leader != "") }
		+ if .leader == "" then { message: "no leader", may_disrupt_reason: "no leader" } else {} end' ;;
	7) answer -n '"no process listens" as $why | # curl was refused: the only proof that it is down
		{ role: "unknown", liveness: "refused", ready: false, may_disrupt: false, message: $why, may_disrupt_reason: $why }' ;;
	*) end 1 "the workload does not answer" ;;
	esac
	;;
transfer)
	request=$(jq -ce 'if keys == ["candidates", "expected_leader"] then . else error end') || end 64 "unknown request"
	status=$(call "$api/status") || end 1 "the workload does not answer"
	if [ "$(echo "$status" | jq -r .leader)" != "$self" ]; then
		echo "$status" | answer '{ moved: false, leader: .leader, epoch: .term }' # success: it does not lead
		exit
	fi
	to=$(echo "$request $status" | jq -rs --arg self "$self" 'if .[0].expected_leader == $self
		then first(.[0].candidates[] as $c | select($c != $self and (.[1].members | index($c))) | $c) else empty end')
	[ -n "$to" ] || end 65 "$self leads, and no candidate can take over"
	status=$(call "$api/lead" --data "{\"to\":\"$to\"}") || end 1 "the hand-over is not confirmed"
	echo "$status" | answer '{ moved: true, leader: .leader, epoch: .term }'
	;;
drain | undrain) ;; # a member of this workload may stop at any moment
*) end 64 "no such command" ;;
esac
