#!/bin/sh
# Runs a workload once this CVM is admitted: waits for the ready file, loads the
# environment, then replaces itself by the given command.
#   exec.sh [--hosts] command [argument...]
# --hosts adds the Peers' names to this container's own /etc/hosts.
set -eu

dir=$(dirname -- "$0")
hosts=no
if [ "${1:-}" = "--hosts" ]; then
	hosts=yes
	shift
fi
if [ "$#" -eq 0 ]; then
	echo "usage: exec.sh [--hosts] command [argument...]" >&2
	exit 64
fi

while [ ! -e "$dir/ready" ]; do
	sleep 0.05 2>/dev/null || sleep 1
done

set -a
# shellcheck source=/dev/null
. "$dir/env"
set +a

if [ "$hosts" = yes ] && ! grep -q '^# cadre peers$' /etc/hosts; then
	{
		echo "# cadre peers"
		cat "$dir/hosts"
	} >>/etc/hosts
fi

exec "$@"
