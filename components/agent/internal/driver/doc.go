// Package driver knows one workload kind from inside its CVM: which role this
// member has, whether it has caught up, how leadership is handed over. A driver
// reports facts; the leader's planner decides.
//
// Drivers: none, patroni, consul, etcd. Each file states the settings it knows
// (group.Workload.Settings); an unknown setting is refused.
//
// Forcing calls (failover, force-new-cluster, take-over) do not exist here.
package driver
