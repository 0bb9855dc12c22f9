#!/usr/bin/env bash
# Checks a host for dstack-vmm and Cadre, and prints the configuration that both need. It changes nothing without
# --prepare, which makes the folder of guest images and the token file where they are missing.
#
# Needs: bash, coreutils, grep, and curl for the check of a running VMM. TDX itself (BIOS, kernel, QEMU, SGX) comes from
# the vendor's guide: a script cannot turn it on.
set -euo pipefail

usage() {
	cat <<-'TEXT'
		Usage: scripts/vmm-host.sh [options]

		  --images DIR      folder of guest images, image.path of vmm.toml (default /var/lib/dstack/images)
		  --vmm URL         a running dstack-vmm: http://HOST:PORT, https://HOST:PORT or unix:///PATH
		                    (default http://127.0.0.1:9080)
		  --token FILE      the VMM's token (default /etc/dstack/vmm-token)
		  --kms-auth ADDR   address and port for `cadre kms-auth` (default 127.0.0.1:8001)
		  --prepare         make the folder and the token where they are missing

		The exit code is 0 if each check passed, 1 if one failed, and 2 for a wrong option.
	TEXT
}

images=/var/lib/dstack/images vmm=http://127.0.0.1:9080 token=/etc/dstack/vmm-token auth=127.0.0.1:8001 prepare=
while (($#)); do
	case $1 in
	--images | --vmm | --token | --kms-auth)
		(($# > 1)) || {
			echo "vmm-host: $1 needs a value" >&2
			exit 2
		}
		case $1 in
		--images) images=$2 ;;
		--vmm) vmm=$2 ;;
		--token) token=$2 ;;
		--kms-auth) auth=$2 ;;
		esac
		shift 2
		;;
	--prepare)
		prepare=yes
		shift
		;;
	-h | --help)
		usage
		exit 0
		;;
	*)
		echo "vmm-host: unknown option $1" >&2
		usage >&2
		exit 2
		;;
	esac
done

failed=0
pass() { printf 'ok    %s\n' "$1"; }
# fail WHAT WAY prints a failed check with its way out.
fail() {
	printf 'FAIL  %s\n      %s\n' "$1" "$2"
	failed=1
}

echo "# TDX"
if grep -qw tdx_host_platform /proc/cpuinfo || [[ $(cat /sys/module/kvm_intel/parameters/tdx 2>/dev/null) == [Y1] ]]; then
	pass "the kernel offers TDX to KVM"
else
	fail "the kernel offers no TDX to KVM" "switch TDX on in the BIOS, and boot a kernel for TDX hosts with kvm_intel.tdx=on: https://github.com/canonical/tdx"
fi
if [[ -e /dev/kvm ]]; then pass "/dev/kvm"; else fail "/dev/kvm is missing" "load kvm_intel, and switch virtualisation on in the BIOS"; fi
if [[ -e /dev/vhost-vsock ]]; then pass "/dev/vhost-vsock"; else fail "/dev/vhost-vsock is missing" "modprobe vhost_vsock"; fi
for device in /dev/sgx_enclave /dev/sgx_provision; do
	if [[ -e $device ]]; then
		pass "$device"
	else
		fail "$device is missing" "switch SGX on in the BIOS: quotes, and the keys of the key service itself, come from SGX enclaves"
	fi
done
if command -v qemu-system-x86_64 >/dev/null; then
	pass "qemu-system-x86_64"
else
	fail "qemu-system-x86_64 is missing" "install the QEMU of the TDX host packages; a distribution's own need not know TDX"
fi

echo "# Guest images in $images"
if [[ ! -d $images && -n $prepare ]]; then install -d -m 0755 "$images"; fi
hashes=()
if [[ ! -d $images ]]; then
	fail "$images is missing" "run with --prepare, or name the folder with --images"
else
	for folder in "$images"/*/; do
		[[ -d $folder ]] || continue
		name=$(basename "$folder")
		if [[ ! -f $folder/metadata.json ]]; then
			fail "$name has no metadata.json" "unpack the whole release of the guest image"
		elif ! grep -Eqx '[0-9a-f]{64}' "$folder/digest.txt" 2>/dev/null; then
			fail "$name has no digest.txt with 64 hex digits" "the key service knows an image by this digest: use a release that has one"
		else
			hashes+=("$(cat "$folder/digest.txt")")
			pass "$name, digest ${hashes[-1]}"
		fi
	done
	((${#hashes[@]})) || fail "no guest image" "unpack a release of https://github.com/Dstack-TEE/dstack/releases there"
fi

echo "# Token in $token"
if [[ ! -e $token && -n $prepare ]]; then
	install -d -m 0755 "$(dirname "$token")"
	(umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$token")
fi
if [[ ! -s $token ]]; then
	fail "$token is missing" "run with --prepare, which draws a token"
elif [[ $(stat -c %a "$token") != *00 ]]; then
	fail "others can read $token" "chmod 600 $token"
else
	pass "$token"
fi

echo "# dstack-vmm at $vmm"
# rpc METHOD [CURL OPTION...] prints the answer.
rpc() {
	local method=$1 base=$vmm where=()
	shift
	if [[ $vmm == unix://* ]]; then
		where=(--unix-socket "${vmm#unix://}")
		base=http://localhost
	fi
	curl -sS --fail --max-time 5 "${where[@]}" "$@" -H 'Content-Type: application/json' -d '{}' "$base/prpc/$method?json" 2>&1
}
# The token goes by a file descriptor: other users can read the arguments of a process.
bearer() { if [[ -r $token ]]; then printf 'Authorization: Bearer %s\n' "$(cat "$token")"; fi; }
if ! command -v curl >/dev/null; then
	fail "curl is missing" "install curl, or skip this check"
elif answer=$(rpc Version -H @<(bearer)); then
	pass "it answers: $answer"
	if rpc Status >/dev/null; then
		fail "it answers without a token" "up to 0.5.11 no token guards the RPC: keep its port on a private network, or set [auth] in a later version"
	else
		pass "it wants the token"
	fi
else
	fail "no answer: $answer" "start dstack-vmm with the configuration below"
fi

cat <<TEXT

# vmm.toml: the parts that Cadre depends on. The address must be reachable from the CVMs of coordinators on every host.
address = "tcp:0.0.0.0:9080"

[image]
path = "$images"

[auth]
enabled = true
tokens = ["the text of $token"]

[cvm]
kms_urls = ["https://kms.example.com:9201"]
gateway_urls = ["https://gateway.example.com:9202"]

[cvm.auto_restart]
enabled = true

# kms.toml of the key service. From a CVM with user networking its own host is 10.0.2.2.
[core.auth_api]
type = "webhook"

[core.auth_api.webhook]
url = "http://10.0.2.2:${auth##*:}"

# The webhook, on this host:
cadre kms-auth init --static /etc/cadre/kms-auth.json$(if ((${#hashes[@]})); then printf ' --os-image %s' "${hashes[@]}"; fi)
cadre kms-auth --listen $auth --static /etc/cadre/kms-auth.json
TEXT
exit "$failed"
