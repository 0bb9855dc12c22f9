#!/usr/bin/env bash
# Runs a command of this repository on a bare Debian 12: base packages, Go, Python, make
# and git, and nothing of the machine that it stands on but its kernel and network. It
# shows the programs that a newcomer's machine lacks.
#
#   scripts/fresh-machine.sh [--bind DIR]... DIR [COMMAND...]    (root; COMMAND: make demo)
#
# DIR is made with debootstrap, which takes a minute, and used again if it is there; the
# last commit is cloned afresh into its /root/cadre. --bind shows a folder of this machine
# there at the same place, such as Go's caches, which saves an hour.
set -euo pipefail

die() {
	printf 'fresh-machine: %s\n' "$*" >&2
	exit 1
}

# enter runs as the first process of namespaces of its own, which take all mounts with them.
enter() {
	local dir=$1 bind
	shift
	# pivot_root and not chroot: the kernel permits no sandbox inside of a chroot.
	mount --bind "$dir" "$dir"
	mkdir -p "$dir/.outside"
	mount -t proc proc "$dir/proc"
	mount --rbind /sys "$dir/sys"
	mount --rbind /dev "$dir/dev"
	mount -t tmpfs tmpfs "$dir/run"
	while [[ $1 == --bind ]]; do
		bind=$2
		shift 2
		mkdir -p "$dir/$bind"
		mount --bind "$bind" "$dir/$bind"
	done
	cd "$dir"
	pivot_root . .outside
	umount -l /.outside
	cd /root/cadre
	# No exec: this shell reaps the processes of daemons, as a machine's init does.
	"$@"
	exit
}

if [[ ${1:-} == --enter ]]; then
	shift
	enter "$@"
fi

binds=()
while [[ ${1:-} == --bind ]]; do
	[[ -d ${2:-} ]] || die "--bind wants a folder, not '${2:-}'"
	binds+=(--bind "$(cd "$2" && pwd)")
	shift 2
done
[[ -n ${1:-} ]] || die "usage: scripts/fresh-machine.sh [--bind DIR]... DIR [COMMAND...]"
((EUID == 0)) || die "it needs root: a file system is made and mounted"
dir=$1
shift
(($# > 0)) || set -- make demo
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

if [[ ! -e $dir/.made ]]; then
	command -v debootstrap >/dev/null || die "debootstrap is not on PATH: make tools-dev installs it"
	mkdir -p "$dir"
	debootstrap --variant=minbase --include=ca-certificates,git,make,python3 bookworm "$dir"
	: >"$dir/.made"
fi
dir=$(cd "$dir" && pwd)
goroot=$(cd / && go env GOROOT)
rm -rf "$dir/usr/local/go" "$dir/root/cadre"
cp -a "$goroot" "$dir/usr/local/go"
git clone -q --no-hardlinks "file://$repository" "$dir/root/cadre"

# How this machine reaches registries: its certificates, names, proxies and settings.
for file in /etc/ssl/certs/ca-certificates.crt /etc/resolv.conf /etc/hosts /etc/pip.conf; do
	[[ ! -e $file ]] || cp -L "$file" "$dir$file"
done
settings=()
while IFS= read -r line; do settings+=("$line"); done \
	< <(env | grep -E '^(https?_proxy|no_proxy|HTTPS?_PROXY|NO_PROXY|PIP_[A-Z_]*|SSL_CERT_FILE|GO(PROXY|SUMDB|NOSUMDB|PRIVATE|FLAGS))=')

exec unshare --mount --pid --fork --kill-child --propagation private \
	env -i "${settings[@]}" HOME=/root TERM="${TERM:-dumb}" \
	PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
	bash "$repository/scripts/fresh-machine.sh" --enter "$dir" "${binds[@]}" "$@"
