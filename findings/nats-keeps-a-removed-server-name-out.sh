#!/usr/bin/env bash
# nats-server v2.15.2: a server that was taken out of the meta group by SERVER.REMOVE, and that comes
# back under its name with an empty disk, stays out for five minutes (raft.go, peerRemoveTimeout), and
# its /healthz says ok all the time. A peer's id is a hash of the server's name, so that the
# replacement of a lost server is taken for the removed one. Under another name the same server is a
# member at once.
#
# Builds nats-server of that version from its Go module (under a minute on two cores), starts three
# servers on loopback, and replaces one twice. Exits 1 when the removed name is let in.
set -euo pipefail
dir=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
cd "$dir"
export GOWORK=off GOFLAGS=-mod=mod CGO_ENABLED=0
GOBIN=$dir go install github.com/nats-io/nats-server/v2@v2.15.2 2>/dev/null
read -ra ports < <(python3 -c '
import socket
s = [socket.socket() for _ in range(9)]
for one in s: one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in s))')

start() { # NUMBER NAME
	cat >"$1.conf" <<-END
		server_name: $2
		listen: 127.0.0.1:${ports[$1]}
		http: 127.0.0.1:${ports[$1 + 3]}
		jetstream { store_dir: "$dir/data$1" }
		cluster { name: c, listen: 127.0.0.1:${ports[$1 + 6]}, routes: [$(printf '"nats://127.0.0.1:%s",' "${ports[@]:6}")] }
		system_account: SYS
		accounts { SYS { users: [{ user: sys, password: sys }] } }
	END
	./nats-server -c "$1.conf" -l "$dir/log$1" &
	pids[$1]=$!
}
ask() { curl -fsS "http://127.0.0.1:${ports[$1 + 3]}/$2" || true; }
# size is the number of peers that server 0 sees.
size() { ask 0 jsz | sed -n 's/.*"cluster_size": \([0-9]*\).*/\1/p'; }
until_size() { # SIZE SECONDS
	for ((i = 0; i < $2 * 10; i++)); do
		[[ $(size) != "$1" ]] || return 0
		sleep 0.1
	done
	return 1
}
lose() { # kills server 2 with its disk, and removes it from the meta group
	kill -9 "${pids[2]}"
	wait "${pids[2]}" 2>/dev/null || true
	rm -rf data2
	exec 3<>"/dev/tcp/127.0.0.1/${ports[0]}"
	text="{\"peer\":\"$1\"}"
	printf 'CONNECT {"user":"sys","pass":"sys","verbose":false}\r\nPUB $JS.API.SERVER.REMOVE answer %d\r\n%s\r\nPING\r\n' ${#text} "$text" >&3
	until_size 2 20
	exec 3>&-
}

start 0 zero
start 1 one
start 2 two
until_size 3 30
until [[ -n $(ask 0 jsz | sed -n 's/.*"leader": "\(.*\)",/\1/p') ]]; do sleep 0.1; done
lose two
start 2 two
kept_out=yes
until_size 3 20 && kept_out=no
echo "the removed name is kept out for 20 s: $kept_out; its /healthz says $(ask 2 healthz)"
[[ $kept_out == yes ]] || {
	echo "that has changed"
	exit 1
}
kill -9 "${pids[2]}"
wait "${pids[2]}" 2>/dev/null || true
rm -rf data2
start 2 two-again
until_size 3 20 || {
	echo "the other name is kept out, too"
	exit 1
}
echo "as found with nats-server v2.15.2: another name is let in at once"
