#!/usr/bin/env bash
# etcd v3.6.16: "etcdutl snapshot restore" with a new cluster token makes a new cluster: other ids, and nothing of the
# old membership. An alarm NOSPACE that was active when the snapshot was taken is in the data and comes along. The
# restored cluster refuses every write from its first moment, whatever its quota is, because of a member that is none of
# its own. Neither the restore nor "etcdutl snapshot status" names the alarm. A restore with a larger quota, because the
# old cluster was full, meets it. Way out: etcdctl alarm disarm.
#
# Builds etcd, etcdctl and etcdutl of that version from their Go modules (minutes on two cores), fills a member with a
# quota of 16 MiB, and restores its snapshot under the default quota of 2 GiB. Exits 1 when the restored member accepts
# a write, or when the alarm is its own.
set -euo pipefail
dir=$(mktemp -d)
pid=
trap '[[ -z $pid ]] || kill "$pid" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'MOD'
module etcd
go 1.24
require (
	go.etcd.io/etcd/etcdctl/v3 v3.6.16
	go.etcd.io/etcd/etcdutl/v3 v3.6.16
	go.etcd.io/etcd/server/v3 v3.6.16
)
MOD
cat >tools.go <<'GO'
//go:build tools

package etcd

import (
	_ "go.etcd.io/etcd/etcdctl/v3"
	_ "go.etcd.io/etcd/etcdutl/v3"
	_ "go.etcd.io/etcd/server/v3"
)
GO
export GOWORK=off GOFLAGS=-mod=mod CGO_ENABLED=0
for part in server etcdctl etcdutl; do go build -o "$part" "go.etcd.io/etcd/$part/v3" 2>/dev/null; done
read -r client peer < <(python3 -c '
import socket
s = [socket.socket() for _ in range(2)]
for one in s: one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in s))')
export ETCDCTL_ENDPOINTS=127.0.0.1:$client
start() { # DATA QUOTA
	./server --name one --data-dir "$1" --quota-backend-bytes "$2" --log-level error \
		--listen-client-urls "http://127.0.0.1:$client" --advertise-client-urls "http://127.0.0.1:$client" \
		--listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
		--initial-cluster "one=http://127.0.0.1:$peer" --initial-cluster-token "$1" 2>>server.log &
	pid=$!
	until ./etcdctl get any >/dev/null 2>&1; do
		kill -0 "$pid"
		sleep 0.1
	done
}
start old $((16 << 20))
head -c 1000000 /dev/zero | tr '\0' x >value
for ((i = 0; i < 100; i++)); do
	./etcdctl put key <value >/dev/null 2>&1 || break
done
./etcdctl snapshot save snapshot.db >/dev/null 2>&1
kill "$pid"
wait "$pid" || true
./etcdutl snapshot restore snapshot.db --data-dir new --initial-cluster-token new --name one \
	--initial-cluster "one=http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" 2>/dev/null
start new 0
member=$(./etcdctl member list | cut -d, -f1)
alarm=$(./etcdctl alarm list)
owner=$(sed -n 's/memberID:\([0-9]*\).*/\1/p' <<<"$alarm")
owner=$(printf %x "$owner")
said=$(./etcdctl put key small 2>&1 | tail -1 || true)
echo "the only member: $member; $alarm (of $owner); a write: $said"
[[ $alarm == *NOSPACE* && $said == *"space exceeded"* && $owner != "$member" ]] || {
	echo "that has changed"
	exit 1
}
./etcdctl alarm disarm >/dev/null
./etcdctl put key small >/dev/null
echo "as found with etcd v3.6.16: writes are refused until the alarm is disarmed"
