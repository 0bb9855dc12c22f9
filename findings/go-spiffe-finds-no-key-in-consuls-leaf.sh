#!/usr/bin/env bash
# Consul 1.22.7 hands out its leaf certificates as SPIFFE identities, and two SPIFFE libraries differ about them.
# x509svid.Parse of go-spiffe v2.9.0 answers "no private key found" for each: Consul writes "EC PRIVATE KEY", and
# go-spiffe, whose docs ask for PKCS#8, overlooks such a block. spiffe 0.3.2 of PyPI reads it.
# For a service "web api" Consul issues spiffe://.../svc/web%20api without a warning. SPIFFE permits no percent sign in
# an ID, so that both libraries refuse the certificate. Way out: openssl pkcs8 -topk8 -nocrypt, and names of letters,
# digits, dots, dashes and underscores.
#
# Takes key and ID from Consul's own packages (a build of a few minutes on two cores), signs a certificate with both, and
# prints what each library says. Exits 1 when go-spiffe reads the key, or one of them reads the second ID.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check spiffe==0.3.2
cat >go.mod <<'MOD'
module finding
go 1.25
require (
	github.com/hashicorp/consul v1.22.7
	github.com/spiffe/go-spiffe/v2 v2.9.0
)
MOD
cat >main.go <<'GO'
package main

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"time"

	"github.com/hashicorp/consul/agent/connect"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
)

func main() {
	key, keyPEM, err := connect.GeneratePrivateKey()
	check(err)
	id := connect.SpiffeIDService{
		Host: "11111111-2222-3333-4444-555555555555.consul", Namespace: "default", Datacenter: "dc1", Service: os.Args[1],
	}
	leaf := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-time.Minute),
		NotAfter:              time.Now().Add(time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		URIs:                  []*url.URL{id.URI()},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, key.Public(), key)
	check(err)
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	check(os.WriteFile("cert.pem", certPEM, 0o600))
	check(os.WriteFile("key.pem", []byte(keyPEM), 0o600))
	if _, err := x509svid.Parse(certPEM, []byte(keyPEM)); err != nil {
		fmt.Println(err)
	} else {
		fmt.Println("accepted")
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}
GO
cat >finding.py <<'PY'
from spiffe import X509Svid

try:
    X509Svid.parse(open("cert.pem", "rb").read(), open("key.pem", "rb").read())
    print("accepted")
except Exception as err:
    print(err)
PY
export GOWORK=off GOFLAGS=-mod=mod CGO_ENABLED=0
go mod tidy 2>/dev/null
go build -o leaf .
said=
for service in web 'web api'; do
	in_go=$(./leaf "$service")
	in_python=$(env/bin/python finding.py)
	printf '%s: go-spiffe: %s\n%s: spiffe: %s\n' "$service" "$in_go" "$service" "$in_python"
	said+="$in_go; $in_python; "
done
[[ $said == *"no private key found; accepted; "*"path segment characters"*"; "*"invalid character in path segment"* ]] || {
	echo "that has changed"
	exit 1
}
echo "as found with go-spiffe v2.9.0, spiffe 0.3.2 and Consul 1.22.7"
