// Package voters reads and changes the set of Consul's servers, one for each coordinator. Consul
// forwards each call to the leader of Raft, so that every coordinator sees the same set.
package voters
