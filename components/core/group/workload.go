package group

// Kinds of workload that a driver knows.
const (
	// WorkloadNone has no roles and no quorum; the default.
	WorkloadNone = "none"
	// WorkloadConsul is a Consul server: a Raft voter.
	WorkloadConsul = "consul"
	// WorkloadPatroni is PostgreSQL under Patroni: a leader and replicas, whose
	// quorum is that of the store behind it, not of the data members.
	WorkloadPatroni = "patroni"
	// WorkloadEtcd is an etcd member: a Raft voter.
	WorkloadEtcd = "etcd"
)

// workloadKind is what the domain knows about one kind of workload.
type workloadKind struct {
	// voters: members form a majority quorum among themselves.
	voters bool
	// settings that its driver reads.
	settings []string
	// secrets that its members share, beside the declared ones.
	secrets []string
	// set is what Cadre does about who belongs to the workload's set.
	set setTraits
}

// setTraits: see ChangesSet, AddsMembers and LeavesAlive.
type setTraits struct{ changes, adds, leavesAlive bool }

var workloadKinds = map[string]workloadKind{
	WorkloadNone: {},
	// Autopilot lists a server that joins and gives it its vote.
	WorkloadConsul: {voters: true, settings: []string{"http_addr", "token_file"}, set: setTraits{changes: true}},
	WorkloadPatroni: {settings: []string{"max_lag_bytes", "password_file", "port", "scope", "username"},
		secrets: []string{"superuser", "replication", "rewind"}},
	WorkloadEtcd: {voters: true, settings: []string{"ca_file", "cert_file", "client_port", "key_file"},
		set: setTraits{changes: true, adds: true, leavesAlive: true}},
}

// HasVoters reports whether the group's members vote among themselves, so that a
// majority of them must stay (R17, R19, R44).
func HasVoters(s Spec) bool { return workloadKinds[s.Workload.Kind].voters }

// HasDriver reports whether a driver knows the workload: then roles, lag and
// MayDisrupt of its reports count.
func HasDriver(s Spec) bool { return s.Workload.Kind != "" && s.Workload.Kind != WorkloadNone }
