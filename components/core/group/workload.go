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

// workloadKind holds the domain's knowledge about one kind of workload.
type workloadKind struct {
	// voters: members form a majority quorum among themselves.
	voters bool
	// settings that its driver reads, in the order of their names.
	settings []Setting
	// secrets that its members share, in addition to the declared ones.
	secrets []string
	// set are Cadre's duties for the workload's set of members.
	set setTraits
}

// setTraits: see ChangesSet, AddsMembers and LeavesAlive.
type setTraits struct{ changes, adds, leavesAlive bool }

// ConsulDriverRules are the rules that the token of a Consul driver needs.
const ConsulDriverRules = `operator = "write" agent_prefix "" { policy = "read" } node_prefix "" { policy = "read" }`

var workloadKinds = map[string]workloadKind{
	WorkloadNone: {},
	// Autopilot lists a server that joins and gives it its vote.
	WorkloadConsul: {voters: true, set: setTraits{changes: true}, settings: []Setting{
		{Name: "ca_file", Kind: SettingFile, Line: "Authority of the certificate of the HTTP API, which is asked by HTTPS then. Absent: without TLS."},
		{Name: "cert_file", Kind: SettingFile, With: []string{"ca_file", "key_file"}, Line: "Certificate that the agent shows. Read for each handshake."},
		{Name: "http_addr", Kind: SettingAddress, Default: "127.0.0.1:8500", Line: "Where the server's HTTP API listens, or with `ca_file` its HTTPS API; the certificate has to be valid for this host."},
		{Name: "key_file", Kind: SettingFile, With: []string{"ca_file", "cert_file"}, Line: "Key of that certificate."},
		{Name: "token_file", Kind: SettingFile, Line: "File with a token that has the rules `" + ConsulDriverRules + "`. Read for each call."},
	}},
	WorkloadPatroni: {secrets: []string{"superuser", "replication", "rewind"}, settings: []Setting{
		{Name: "ca_file", Kind: SettingFile, Line: "Authority of the certificates of Patroni's REST API (`restapi.certfile`), which have to be valid for 127.0.0.1 and the members' Peer addresses. Absent: the API is without TLS."},
		{Name: "cert_file", Kind: SettingFile, With: []string{"ca_file", "key_file"}, Line: "Certificate that the agent shows, where `restapi.verify_client` is set. Read for each handshake."},
		{Name: "key_file", Kind: SettingFile, With: []string{"ca_file", "cert_file"}, Line: "Key of that certificate."},
		{Name: "max_lag_bytes", Kind: SettingBytes, Default: "16777216", Line: "How far the replay of a streaming replica may be behind for it to have caught up."},
		{Name: "password_file", Kind: SettingFile, With: []string{"username"}, Line: "File with the password of `username`. Read for each call."},
		{Name: "port", Kind: SettingPort, Default: "8008", Line: "Port of Patroni's REST API on every member, which offers it to its group."},
		{Name: "scope", Kind: SettingText, Line: "Scope that Patroni has to serve. Absent: any."},
		{Name: "username", Kind: SettingText, With: []string{"password_file"}, Line: "Who may call the unsafe methods of Patroni's REST API, where `restapi.authentication` is set."},
	}},
	WorkloadEtcd: {voters: true, set: setTraits{changes: true, adds: true, leavesAlive: true}, settings: []Setting{
		{Name: "ca_file", Kind: SettingFile, Line: "Authority of the client port's certificates, which have to be valid for 127.0.0.1 and the members' Peer addresses. Absent: the port is without TLS."},
		{Name: "cert_file", Kind: SettingFile, With: []string{"ca_file", "key_file"}, Line: "Certificate that the agent shows. Read for each handshake."},
		{Name: "client_port", Kind: SettingPort, Default: "2379", Line: "Client port on every member."},
		{Name: "key_file", Kind: SettingFile, With: []string{"ca_file", "cert_file"}, Line: "Key of that certificate."},
		{Name: "password_file", Kind: SettingFile, With: []string{"user"}, Line: "File with the password of `user`. Read for each login."},
		{Name: "user", Kind: SettingText, With: []string{"password_file"}, Line: "User with the role `root`, where etcd's authentication is on. Absent: the agent does not log in; the common name of `cert_file` may be such a user."},
	}},
}

// HasVoters reports whether the group's members vote among themselves, so that a
// majority of them must stay (R17, R19, R44).
func HasVoters(s Spec) bool { return workloadKinds[s.Workload.Kind].voters }

// HasDriver reports whether a driver knows the workload: then roles, lag and
// MayDisrupt of its reports count.
func HasDriver(s Spec) bool { return s.Workload.Kind != "" && s.Workload.Kind != WorkloadNone }
