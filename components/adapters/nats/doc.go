// Package nats is the adapter of NATS JetStream: it reads one nats-server over its monitoring port,
// and all servers of its cluster through a user of the system account.
//
//	role          leader is the leader of the meta group, which decides about all streams
//	voters        the peers of the meta group
//	may_disrupt   false while a replicated stream or consumer of this server, or the meta group, would
//	              be without a majority of current replicas in the absence of this server
//	transfer      the meta leader steps down in favour of a candidate
//	drain         the streams and consumers that this server leads elect other leaders
//	set           "remove" takes a dead server out of the meta group and of all streams
//
// A server is named SLOT, or SLOT_XXX with three hexadecimal digits. NATS derives a peer's id from
// this name, and keeps a removed id out of the meta group for five minutes. Digits that are new with
// each disk give the replacement another id, and so its place at once.
package nats
