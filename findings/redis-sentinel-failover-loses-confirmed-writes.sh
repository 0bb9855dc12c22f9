#!/usr/bin/env bash
# Redis 7.0 (Debian 12): SENTINEL FAILOVER of a healthy primary loses writes that WAIT confirmed. The Sentinel promotes
# a replica while the old primary goes on writing; the other replica follows the old primary for about a second more
# and confirms its writes, so that WAIT 1 succeeds. Both are then made replicas of the new primary, whose data lacks
# these writes. The old primary itself writes for about ten seconds more; without WAIT, all of that is lost.
# Way out: CLIENT PAUSE ... WRITE at the primary, wait until the offsets of the replicas are equal, SENTINEL FAILOVER,
# and REPLICAOF at the old primary before the pause ends (docs/examples/drivers/redis/adapter.sh).
#
# Unpacks the package into a temporary folder, starts a primary, two replicas and one Sentinel on loopback, and writes
# at the primary during the failover. Exits 1 when the new primary has every confirmed write.
set -euo pipefail
dir=$(mktemp -d)
pids=()
trap '[[ -z ${pids[*]} ]] || kill "${pids[@]}" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -o APT::Sandbox::User=root download -qq redis-tools libjemalloc2 liblzf1 libatomic1
for package in *.deb; do dpkg -x "$package" .; done
ln -s redis-check-rdb usr/bin/redis-server
export LD_LIBRARY_PATH=$dir/usr/lib/x86_64-linux-gnu
usr/bin/redis-server --version
read -r -a ports < <(python3 -c '
import socket
s = [socket.socket() for _ in range(4)]
for one in s: one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in s))')
for n in 0 1 2; do
	mkdir "$n"
	of=()
	((n == 0)) || of=(--replicaof 127.0.0.1 "${ports[0]}")
	usr/bin/redis-server --port "${ports[n]}" --bind 127.0.0.1 --dir "$n" --save '' --repl-diskless-sync-delay 0 "${of[@]}" >"$n.log" &
	pids+=($!)
done
printf '%s\n' "port ${ports[3]}" 'bind 127.0.0.1' "sentinel monitor m 127.0.0.1 ${ports[0]} 1" >sentinel.conf
usr/bin/redis-server sentinel.conf --sentinel >sentinel.log &
pids+=($!)
cat >probe.py <<'PY'
import socket, sys, time
primary, sentinel = int(sys.argv[1]), int(sys.argv[4])

def connect(port):
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 5).makefile("rwb")
        except ConnectionRefusedError:
            time.sleep(0.05)

def call(c, *words):
    c.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in (str(w).encode() for w in words)))
    c.flush()
    return reply(c)

def reply(c):
    line = c.readline()
    if not line.endswith(b"\r\n"):
        raise EOFError("the server hung up")
    kind, text = line[:1], line[1:-2]
    if kind == b"$":
        return c.read(int(text) + 2)[:-2] if int(text) >= 0 else None
    if kind == b"*":
        return [reply(c) for _ in range(int(text))] if int(text) >= 0 else None
    return text if kind != b"-" else RuntimeError(text.decode())

s = connect(sentinel)
while int((lambda m: dict(zip(m[::2], m[1::2])))(call(s, "SENTINEL", "MASTER", "m"))[b"num-slaves"]) < 2:
    time.sleep(0.2) # the Sentinel reads the list of replicas every ten seconds
c, confirmed, began = connect(primary), [], None
for n in range(1 << 20):
    if n == 100:
        began = time.monotonic()
        print("SENTINEL FAILOVER:", call(s, "SENTINEL", "FAILOVER", "m"))
    try:
        if isinstance(call(c, "SET", n, ""), RuntimeError):
            break
        if (lambda have: isinstance(have, bytes) and int(have) >= 1)(call(c, "WAIT", 1, 100)):
            confirmed.append(n)
    except (EOFError, ConnectionError):
        break
print("the old primary went on writing for %.1f s" % (time.monotonic() - began))
while int(call(s, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m")[1]) == primary:
    time.sleep(0.1)
now = connect(int(call(s, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m")[1]))
lost = [n for n in confirmed if call(now, "EXISTS", n) != b"1"]
print("writes that WAIT confirmed: %d, lost: %d" % (len(confirmed), len(lost)))
sys.exit(0 if lost else 1)
PY
python3 probe.py "${ports[@]}" || {
	echo 'that has changed'
	exit 1
}
echo 'as found with Redis 7.0.15: a failover by hand loses confirmed writes'
