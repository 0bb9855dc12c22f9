#!/usr/bin/env bash
# pgBackRest 2.45 (Debian 12): a store's certificate for an IP address does not count. A client of TLS
# compares an address with the alternative names of the type IP address (RFC 9110, 4.3.5); curl does.
# pgBackRest compares the text of the endpoint with alternative DNS names and the common name only, so
# that a store under https://192.0.2.1 with a correct certificate is refused. Each command retries for
# io-timeout (60 s by default) before it names the cause, and archive-push of a database fails so long.
# Way out: a DNS name for the store, or an address as DNS name in the certificate.
#
# Unpacks the package into a temporary folder and asks one server on loopback. Exits 1 when pgBackRest
# accepts the certificate.
set -euo pipefail
dir=$(mktemp -d)
pid=
trap '[[ -z $pid ]] || kill "$pid" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get download -qq pgbackrest=2.45-1
dpkg -x pgbackrest_2.45-1_*.deb .
openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=store -addext subjectAltName=IP:127.0.0.1 \
	-keyout key.pem -out cert.pem 2>/dev/null
cat >server.py <<'PY'
import http.server, ssl
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
server.socket = context.wrap_socket(server.socket, server_side=True)
open("port.new", "w").write(str(server.server_port))
import os; os.rename("port.new", "port")
server.serve_forever()
PY
python3 server.py 2>/dev/null &
pid=$!
until [[ -s port ]]; do sleep 0.1; done
port=$(<port)
curl -sS --cacert cert.pem -o /dev/null "https://127.0.0.1:$port/" && echo "curl accepts the certificate of 127.0.0.1"
cat >pgbackrest.conf <<END
[global]
repo1-type=s3
repo1-path=/x
repo1-s3-bucket=b
repo1-s3-endpoint=127.0.0.1:$port
repo1-s3-region=r
repo1-s3-uri-style=path
repo1-s3-key=k
repo1-s3-key-secret=s
repo1-storage-ca-file=$dir/cert.pem
io-timeout=1
log-level-file=off
[main]
pg1-path=$dir
END
said=$("$dir/usr/bin/pgbackrest" --config="$dir/pgbackrest.conf" --stanza=main info 2>&1 || true)
grep -o "unable to find hostname.*" <<<"$said" | head -1 || {
	printf 'pgBackRest says something else:\n%s\n' "$said"
	exit 1
}
