#!/usr/bin/env bash
# Installs Phala's own clients and its command line, pinned, into a temporary folder, and runs them with their
# schema validation on against the local cloud's API. Their schemas are the contract that
# docs/platforms.md lists. Called by make test-clients.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

mkdir "$folder/npm"
# No install scripts: the clients need none, and a registry's package gets no say here.
npm install --prefix "$folder/npm" --silent --ignore-scripts --no-audit --no-fund --no-save \
	@phala/cloud@0.2.9 @phala/dstack-sdk@0.5.8 phala@1.1.18 viem@2.57.20

"$(readlink -f "$(type -P python3)")" -m venv "$folder/python"
pip=("$folder/python/bin/pip" install -q --disable-pip-version-check)
# phala-cloud names pysha3, which builds with no Python newer than 3.10, and imports none of it.
"${pip[@]}" --no-deps phala-cloud==0.2.0
"${pip[@]}" httpx==0.28.1 pydantic==2.12.5 cryptography==46.0.3

cd "$root/components/local"
CADRE_TEST_CLIENTS=$folder go test -count=1 -timeout 10m -v -run TestOfficialClients ./internal/api
