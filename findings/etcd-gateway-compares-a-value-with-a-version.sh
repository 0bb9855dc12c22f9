#!/usr/bin/env bash
# etcd v3.6.16: a comparison of a transaction names its operand by two fields, `target` and one of `value`, `version` and
# so on, and the server never compares the two. Through the JSON gateway {"key": K, "value": V} without a `target` means
# "the version of K is 0", since VERSION is the first target and no version is given. "Put, if the value is still V" then
# fails where the value is V, and writes where K is absent. The gateway drops names it does not know in the same way: a
# misspelled `target` ends so, and a misspelled `compare` leaves a transaction without any condition. No answer says so.
#
# Builds etcd of that version from its Go module (minutes on two cores), starts one member on loopback, and sends three
# transactions that shall depend on a value. Exits 1 when one of them is refused or ends otherwise.
set -euo pipefail
dir=$(mktemp -d)
pid=
trap '[[ -z $pid ]] || kill "$pid" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'MOD'
module server
go 1.24
require go.etcd.io/etcd/server/v3 v3.6.16
MOD
cat >tools.go <<'GO'
//go:build tools

package server

import _ "go.etcd.io/etcd/server/v3"
GO
export GOWORK=off GOFLAGS=-mod=mod CGO_ENABLED=0
go build -o etcd go.etcd.io/etcd/server/v3 2>/dev/null
read -r client peer < <(python3 -c '
import socket
s = [socket.socket() for _ in range(2)]
for one in s: one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in s))')
./etcd --name one --data-dir data --log-level error \
	--listen-client-urls "http://127.0.0.1:$client" --advertise-client-urls "http://127.0.0.1:$client" \
	--listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
	--initial-cluster "one=http://127.0.0.1:$peer" 2>server.log &
pid=$!
until curl -fsS "http://127.0.0.1:$client/health" 2>/dev/null | grep -q true; do
	kill -0 "$pid"
	sleep 0.1
done
ask() { curl -sS "http://127.0.0.1:$client/v3/kv/$1" -d "$2"; }
base64_of() { printf '%s' "$1" | base64; }
taken=$(base64_of taken) absent=$(base64_of absent) v=$(base64_of v)
ask put "{\"key\": \"$taken\", \"value\": \"$v\"}" >/dev/null
holds() { # COMPARISONS: whether the server says that they hold
	local answer
	answer=$(ask txn "{$1}")
	case $answer in
		*'"succeeded":true'*) echo true ;;
		*'"code"'*) echo "refused: $answer" ;;
		*) echo false ;;
	esac
}
said=
for compare in \
	"\"compare\": [{\"key\": \"$taken\", \"value\": \"$v\", \"target\": \"VALUE\"}]" \
	"\"compare\": [{\"key\": \"$taken\", \"value\": \"$v\"}]" \
	"\"compare\": [{\"key\": \"$absent\", \"value\": \"$v\"}]" \
	"\"compares\": [{\"key\": \"$absent\", \"value\": \"$v\", \"target\": \"VALUE\"}]"; do
	held=$(holds "$compare")
	echo "$compare: $held"
	said+="$held "
done
[[ $said == "true false true true " ]] || {
	echo "that has changed"
	exit 1
}
echo "as found with etcd v3.6.16: without its target a comparison of a value asks for an absent key"
