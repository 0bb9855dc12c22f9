#!/bin/sh
# An adapter that hangs, floods or lies, by the ordinal of its member.
case $CADRE_ORDINAL in
0)
	(sleep 600 &) # a process that is no child of the command
	sleep 600
	;;
1) yes "this is an answer without an end" >&"$CADRE_ANSWER_FD" ;;
2) echo '{"role": "leader", "liveness": "alive", "ready": true, "leader": "bad-1", "may_disrupt": true, "voters": ["bad-2", "etcd-0"]}' >&"$CADRE_ANSWER_FD" ;;
esac
