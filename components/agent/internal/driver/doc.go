// Package driver knows one workload kind from inside its CVM: which role this
// member has, whether it has caught up, how leadership is handed over. A driver
// reports facts; the leader's planner decides.
//
// Drivers: none, patroni, consul, etcd, and custom for a workload behind an adapter. The
// settings of each are in a table of cadre.dev/core/group, by which specs were judged before they
// came here.
//
// Forcing calls (failover, force-new-cluster, take-over) do not exist here.
package driver
