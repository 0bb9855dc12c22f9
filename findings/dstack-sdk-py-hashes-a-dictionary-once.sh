#!/usr/bin/env bash
# PyPI dstack-sdk 0.5.4: get_compose_hash takes `docker_config` out of the dictionary it is given. The first hash is the
# right one, that of the JS SDK. A second call with the same dictionary hashes a document without the registry, and so
# does a write of the dictionary to app-compose.json after the first call: the hash that was computed, and perhaps
# registered, is then another than the one a guest measures. Nothing fails. Way out: get_compose_hash(copy.deepcopy(...)).
#
# Hashes one document twice with each SDK, and prints the keys that the document lost. Exits 1 when both hashes of the
# Python SDK are equal.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >document.json <<'JSON'
{
  "manifest_version": 2,
  "name": "shop",
  "runner": "docker-compose",
  "docker_compose_file": "services: {}",
  "docker_config": { "registry": "registry.example", "username": "shop", "token_key": "TOKEN" }
}
JSON
npm install --silent --ignore-scripts --no-audit --no-fund --no-save @phala/dstack-sdk@0.5.8
cat >finding.mjs <<'JS'
import { readFileSync } from 'node:fs';
import { getComposeHash } from '@phala/dstack-sdk/get-compose-hash';

const document = JSON.parse(readFileSync('document.json'));
console.log(getComposeHash(document), getComposeHash(document));
JS
read -r first second < <(node finding.mjs)
echo "JS:     $first, then $second"
[[ $first == "$second" ]] || exit 2
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check dstack-sdk==0.5.4
cat >finding.py <<'PY'
import json, sys
from dstack_sdk import get_compose_hash

with open("document.json") as file:
    document = json.load(file)
before = set(document)
hashes = get_compose_hash(document), get_compose_hash(document)
print(f"Python: {hashes[0]}, then {hashes[1]}; lost: {', '.join(before - set(document)) or 'nothing'}")
sys.exit(2 if hashes[0] != sys.argv[1] else hashes[0] == hashes[1])
PY
env/bin/python finding.py "$first" || {
	echo "that has changed"
	exit 1
}
echo "as found with dstack-sdk 0.5.4: the first call removes docker_config"
