// Package e2e_etcd proves on a local cloud that a rolling update of an etcd cluster costs its
// clients one hand-over and no promise: the clients' history is linearizable, and no acknowledged
// write is lost.
package e2e_etcd
