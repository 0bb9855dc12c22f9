#!/usr/bin/env bash
# etcd v3.6.5: listing alarms is no read. Maintenance.Alarm with the action GET goes through raft,
# so that every listing adds one entry to the log of every member, commits it, and needs a quorum.
# A monitor that lists alarms once a second writes 86,400 entries a day into an idle cluster, and
# hears nothing from a member that has lost its quorum. Maintenance.Status names active alarms in
# its errors, is answered by the member alone, and adds no entry.
#
# Builds etcd and its client library of that version from their Go modules (minutes on two cores),
# starts one member on loopback, and compares the raft index around ten calls of each kind. Exits
# 1 when listing alarms adds no entries any more.
set -euo pipefail
dir=$(mktemp -d)
pid=
trap '[[ -z $pid ]] || kill "$pid" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
mkdir server probe
cat >server/go.mod <<'MOD'
module server
go 1.24
require go.etcd.io/etcd/server/v3 v3.6.5
MOD
cat >server/tools.go <<'GO'
//go:build tools

package server

import _ "go.etcd.io/etcd/server/v3"
GO
cat >probe/go.mod <<'MOD'
module probe
go 1.24
require go.etcd.io/etcd/client/v3 v3.6.5
MOD
cat >probe/main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	at := os.Args[1]
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{at}})
	check(err)
	defer c.Close()
	index := func() uint64 {
		for {
			status, err := c.Status(ctx, at)
			if err == nil && status.Leader != 0 {
				return status.RaftIndex
			}
			check(ctx.Err())
			time.Sleep(50 * time.Millisecond)
		}
	}
	index()
	_, err = c.Get(ctx, "any") // it serves
	check(err)
	grown := func(call func() error) uint64 {
		before := index()
		for range 10 {
			check(call())
		}
		return index() - before
	}
	list := grown(func() error { _, err := c.AlarmList(ctx); return err })
	status := grown(func() error { _, err := c.Status(ctx, at); return err })
	fmt.Printf("raft entries of 10 listings of alarms: %d, of 10 statuses: %d\n", list, status)
	if list < 10 || status != 0 {
		fmt.Println("that has changed")
		os.Exit(1)
	}
	fmt.Println("as found with etcd v3.6.5: a listing of alarms is a write")
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}
GO
export GOWORK=off GOFLAGS=-mod=mod CGO_ENABLED=0
(cd server && go build -o ../etcd go.etcd.io/etcd/server/v3)
(cd probe && go mod tidy && go build -o ../list .) 2>/dev/null
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
./list "http://127.0.0.1:$client"
