#!/usr/bin/env bash
# Installs official clients, pinned, and runs them against Cadre's stand-ins:
#   Phala's clients and its command line, with their schemas on: the local cloud's API
#   dstack's SDKs: the guest socket of the local cloud
#   npm's consul: the Consul of a member
# They are the contract that docs/reference/platforms.md and docs/reference/consul-proxy.md list. Called by make test-clients.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

mkdir "$folder/npm"
# No install scripts: the clients need none, and a registry's package gets no say here.
npm install --prefix "$folder/npm" --silent --ignore-scripts --no-audit --no-fund --no-save \
	@phala/cloud@0.2.9 @phala/dstack-sdk@0.5.8 phala@1.1.18 viem@2.57.20 @solana/web3.js@1.99.0 consul@2.0.1

"$(readlink -f "$(type -P python3)")" -m venv "$folder/python"
pip=("$folder/python/bin/pip" install -q --disable-pip-version-check)
"${pip[@]}" httpx==0.28.1 pydantic==2.12.5 cryptography==46.0.3 eth-keys==0.7.0 eth-utils==5.3.1
# phala-cloud names pysha3, which builds with no Python newer than 3.10, and dstack-sdk a copy of
# Python's own asyncio. Neither imports it.
"${pip[@]}" --no-deps phala-cloud==0.2.0 dstack-sdk==0.5.4

# Rust's SDK is compiled, with some 400 crates: minutes the first time, and kept in .tools/rust. Cargo is the machine's
# own, with its linker. Nothing else of Cadre needs it, so a machine without it runs all other clients.
host=${CADRE_HOST_PATH:-$PATH}:$HOME/.cargo/bin
left_out=
if PATH=$host type -P cargo >/dev/null; then
	mkdir "$folder/rust"
	printf '%s\n' '[package]' 'name = "guest"' 'version = "0.0.0"' 'edition = "2021"' \
		'[[bin]]' 'name = "guest"' "path = \"$root/components/local/internal/machine/testdata/clients/guest.rs\"" \
		'[dependencies]' 'dstack-sdk = "=0.1.3"' 'serde_json = "1"' 'tokio = { version = "1", features = ["macros", "rt"] }' \
		>"$folder/rust/Cargo.toml"
	(cd "$folder/rust" && PATH=$host CARGO_TARGET_DIR=$root/.tools/rust cargo build --quiet)
	export CADRE_TEST_CLIENTS_RUST=$root/.tools/rust/debug/guest
else
	left_out="cargo is not installed: the Rust SDK was left out"
fi

# run tests packages of a component, and prints the steps of each client; where one failed, everything.
failed=0
run() {
	local out line
	if out=$(cd "$root/components/$1" && go test -count=1 -timeout 10m -v -run TestOfficial "${@:2}" 2>&1); then
		while IFS= read -r line; do
			[[ $line != *" steps passed"* ]] || printf '%s\n' "${line##*_test.go:+([0-9]): }"
		done <<<"$out"
	else
		printf '%s\n' "$out"
		failed=1
	fi
}

shopt -s extglob
export CADRE_TEST_CLIENTS=$folder
run local ./internal/api ./internal/machine
run consulproxy .
[[ -z $left_out ]] || printf '%s\n' "$left_out"
exit $failed
