#!/usr/bin/env bash
# nats.go v1.55.0: its two key-value APIs disagree about an expired key. In a bucket that keeps markers (LimitMarkerTTL)
# nats-server writes a marker when a key expires. A watcher of package jetstream reports it as a purge. A watcher of the
# legacy API (nc.JetStream) of the same module reports a put of the empty value, also under IgnoreDeletes: a program
# that watches a lease in a bucket of another program sees a new holder without a name, and never the end of the lease.
# Way out: package jetstream.
#
# Builds nats-server of that version from its Go module (under a minute on two cores), lets one key expire, and prints
# what both watchers report. Exits 1 when they agree.
set -euo pipefail
dir=$(mktemp -d)
pid=
trap '[[ -z $pid ]] || kill "$pid" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
cd "$dir"
export GOWORK=off GOFLAGS=-mod=mod CGO_ENABLED=0
GOBIN=$dir go install github.com/nats-io/nats-server/v2@v2.15.2 2>/dev/null
cat >go.mod <<'MOD'
module finding
go 1.25
require github.com/nats-io/nats.go v1.55.0
MOD
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	nc := must(nats.Connect(os.Args[1]))
	newer := must(must(jetstream.New(nc)).CreateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: "leases", TTL: time.Second, LimitMarkerTTL: time.Minute,
	}))
	older := must(must(nc.JetStream()).KeyValue("leases"))
	newWatch := must(newer.Watch(ctx, "db", jetstream.UpdatesOnly()))
	oldWatch := must(older.Watch("db", nats.UpdatesOnly(), nats.IgnoreDeletes()))
	must(newer.PutString(ctx, "db", "holder"))
	var now, before string
	for range 2 { // the put, then the end of the key
		select {
		case e := <-newWatch.Updates():
			now = fmt.Sprintf("%v %q", e.Operation(), e.Value())
		case <-ctx.Done():
			fail(ctx.Err())
		}
	}
	for range 2 {
		select {
		case e := <-oldWatch.Updates():
			before = fmt.Sprintf("%v %q", e.Operation(), e.Value())
		case <-time.After(10 * time.Second): // a client that knows markers reports none here
			before = "nothing"
		}
	}
	fmt.Printf("an expired key: %s in package jetstream, %s in the legacy API\n", now, before)
	if now != `KeyValuePurgeOp ""` || before != `KeyValuePutOp ""` {
		fmt.Println("that has changed")
		os.Exit(1)
	}
	fmt.Println("as found with nats.go v1.55.0: the legacy API shows a value")
}

func must[T any](value T, err error) T {
	if err != nil {
		fail(err)
	}
	return value
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}
GO
go build -o watch . 2>/dev/null
port=$(python3 -c '
import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
printf 'listen: 127.0.0.1:%s\njetstream { store_dir: "%s/data" }\n' "$port" "$dir" >server.conf
./nats-server -c server.conf -l log &
pid=$!
until grep -q 'Server is ready' log 2>/dev/null; do
	kill -0 "$pid"
	sleep 0.1
done
./watch "nats://127.0.0.1:$port"
