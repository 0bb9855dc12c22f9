#!/usr/bin/env bash
# Patroni 4.1.5: GET /replica?lag=10mb answers 200 for a replica that is 1 GiB behind. Units are those of PostgreSQL
# (kB, MB, GB, TB, in this case only). A lag that does not read as such, as 10mb, 10M or 10MiB, is no error: the check
# runs without any bound, so that a load balancer keeps each replica. The code's own text says 503 "if not able to honor
# the query parameter" (api.py, do_GET). /readiness reads the same text and falls back to maximum_lag_on_failover.
#
# Serves Patroni's REST API over a stand-in for the database, a replica at 9 of 10 GiB, and asks with several lags. Exits
# 1 when a lag that cannot be read is no longer answered with 200.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check patroni==4.1.5 'psycopg[binary]==3.3.9'
cat >finding.py <<'PY'
import http.client, http.server, sys, threading
from types import SimpleNamespace
from patroni import api

GIB = 1 << 30


class Handler(api.RestApiHandler):
    def get_postgresql_status(self, retry=False):
        at = {"received_location": 9 * GIB, "replayed_location": 9 * GIB}
        return {"state": "running", "role": "replica", "replication_state": "streaming", "xlog": at, "latest_end_lsn": 10 * GIB}

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
server.server_header, server.http_extra_headers = "", {}
server.patroni = SimpleNamespace(
    dcs=SimpleNamespace(cluster=None),
    ha=SimpleNamespace(is_leader=lambda: False),
    postgresql=SimpleNamespace(state="running"),
    noloadbalance=False,
    tags={},
)
threading.Thread(target=server.serve_forever, daemon=True).start()


def status(method, path):
    connection = http.client.HTTPConnection(*server.server_address)
    connection.request(method, path)
    return connection.getresponse().status


if (status("HEAD", "/replica?lag=10MB"), status("HEAD", "/replica?lag=2GB")) != (503, 200):
    sys.exit(2)
changed = False
for lag in ("10MB", "2GB", "10mb", "10M", "10MiB"):
    replica, ready = status("HEAD", "/replica?lag=" + lag), status("GET", "/readiness?lag=" + lag)
    print(f"lag={lag}: /replica {replica}, /readiness {ready}")
    changed |= lag in ("10mb", "10M", "10MiB") and (replica, ready) != (200, 503)
sys.exit(changed)
PY
env/bin/python finding.py || {
	echo "that has changed"
	exit 1
}
echo "as found with Patroni 4.1.5: /replica drops a lag that it cannot read"
