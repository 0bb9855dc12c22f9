#!/bin/sh
# redis.sh server|sentinel becomes this member's Redis server, or its Sentinel. It keeps its files in REDIS_DIR.
set -eu
umask 077
at=$CADRE_VIP port=${REDIS_PORT:-6379} sentinels=${SENTINEL_PORT:-26379} dir=$REDIS_DIR

address() { # SLOT: prints the address of the slot, which never changes; ends with 1 while the address is unknown
	for file in "${HOSTS:-/run/mesh/hosts}" "$dir/peers"; do
		[ ! -e "$file" ] || while read -r address name; do
			[ "$name" != "$1" ] || { echo "$address" && return 0; }
		done <"$file"
	done
	return 1
}

# The first start waits for the addresses of all members, whose CVMs may be younger than this one.
known='' others=''
for slot in $(echo "$CADRE_MEMBERS" | tr , ' '); do
	said=''
	until address=$(address "$slot"); do
		[ -n "$said" ] || echo "redis.sh: waits for the address of $slot" >&2
		said=1
		sleep 0.2
	done
	known="$known$address $slot
"
	[ "$slot" = "$CADRE_SLOT" ] || others="$others $address"
done
printf '%s' "$known" >"$dir/peers.$1"
mv "$dir/peers.$1" "$dir/peers"

# primary prints the address of the primary that another member's Sentinel names.
primary() {
	for other in $others; do
		said=$(timeout 2 redis-cli -h "$other" -p "$sentinels" SENTINEL GET-MASTER-ADDR-BY-NAME cadre 2>&1 | head -n 1)
		case "$known" in *"$said "*) [ -z "$said" ] || { echo "$said" && return 0; } ;; esac
	done
	return 1
}

# founding: all other servers answer, and none of them has a key.
founding() {
	for other in $others; do
		[ "$(timeout 2 redis-cli -h "$other" -p "$port" DBSIZE 2>&1)" = 0 ] || return 1
	done
}

case $1 in
server)
	mkdir -p "$dir/data"
	echo "redis.sh: waits until a Sentinel names the primary" >&2
	# The primary by the word of the others. A server that lost its disk must not be it: they would copy its empty data.
	until of=$(primary) && { [ "$of" != "$at" ] || [ -d "$dir/data/appendonlydir" ] || founding; }; do sleep 0.2; done
	[ "$of" = "$at" ] || set -- "$1" --replicaof "$of" "$port"
	shift
	# appendfsync always: a primary that starts again has everything that its replicas have.
	# Never 0.0.0.0: the agent listens for the Peers on their addresses.
	exec redis-server --bind "$at" --port "$port" --protected-mode no --dir "$dir/data" --save '' --appendonly yes --appendfsync always \
		--repl-diskless-sync-delay 0 --replica-announce-ip "$at" "$@"
	;;
sentinel)
	mkdir -p "$dir/sentinel"
	if [ ! -s "$dir/sentinel/sentinel.conf" ]; then
		# A wrong primary lasts until the first word of a Sentinel whose epoch is higher.
		of=$(primary) || of=$(address "${CADRE_MEMBERS%%,*}")
		# The id is the ordinal: the Sentinel of a new disk takes the place of its predecessor.
		cat >"$dir/sentinel/new" <<-END
			port $sentinels
			bind $at
			protected-mode no
			dir $dir/sentinel
			sentinel myid $(printf %040x $((CADRE_ORDINAL + 1)))
			sentinel announce-ip $at
			sentinel monitor cadre $of $port 2
			sentinel down-after-milliseconds cadre 3000
			sentinel failover-timeout cadre 10000
			sentinel parallel-syncs cadre 2
		END
		mv "$dir/sentinel/new" "$dir/sentinel/sentinel.conf"
	fi
	exec redis-server "$dir/sentinel/sentinel.conf" --sentinel
	;;
esac
