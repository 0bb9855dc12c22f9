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
	// WorkloadCustom is a workload behind an adapter (package adapter): its settings name its traits.
	WorkloadCustom = "custom"
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
	// stopsLeader: see StopsLeader.
	stopsLeader bool
	// judge finds the problems of settings that are each valid; nil: there are none.
	judge func(SettingValues) []Problem
	// of derives the traits of a kind from its settings; nil: they are these.
	of func(SettingValues) workloadKind
}

// traits are those of the workload, by its kind and settings.
func (w Workload) traits() workloadKind {
	kind := workloadKinds[w.Kind]
	if kind.of != nil {
		return kind.of(w.Settings)
	}
	return kind
}

// setTraits: see ChangesSet, AddsMembers and LeavesAlive.
type setTraits struct{ changes, adds, leavesAlive bool }

// ConsulDriverRules are the rules that the token of a Consul driver needs.
const ConsulDriverRules = `operator = "write" agent_prefix "" { policy = "read" } node_prefix "" { policy = "read" }`

var workloadKinds = map[string]workloadKind{
	WorkloadNone: {},
	// Autopilot lists a server that joins and gives it its vote.
	WorkloadConsul: {voters: true, set: setTraits{changes: true}, settings: []Setting{
		{Name: "ca_file", Kind: SettingFile, Line: "CA of the HTTP API's certificate, for HTTPS. Absent: plain HTTP."},
		{Name: "cert_file", Kind: SettingFile, With: []string{"ca_file", "key_file"}, Line: "Certificate of the agent, read for each handshake."},
		{Name: "http_addr", Kind: SettingAddress, Default: "127.0.0.1:8500", Line: "Address of the server's HTTP API, or with `ca_file` of its HTTPS API, whose certificate is valid for this host."},
		{Name: "key_file", Kind: SettingFile, With: []string{"ca_file", "cert_file"}, Line: "Key of that certificate."},
		{Name: "token_file", Kind: SettingFile, Line: "File with a token that has the rules `" + ConsulDriverRules + "`, read for each call."},
		versionSetting("Consul", "1.22.7"),
	}},
	WorkloadPatroni: {secrets: []string{"superuser", "replication", "rewind"}, settings: []Setting{
		{Name: "ca_file", Kind: SettingFile, Line: "CA of the REST API's certificates (`restapi.certfile`), which are valid for 127.0.0.1 and the members' Peer addresses. Absent: plain HTTP."},
		{Name: "cert_file", Kind: SettingFile, With: []string{"ca_file", "key_file"}, Line: "Certificate of the agent for `restapi.verify_client`, read for each handshake."},
		{Name: "key_file", Kind: SettingFile, With: []string{"ca_file", "cert_file"}, Line: "Key of that certificate."},
		{Name: "max_lag_bytes", Kind: SettingBytes, Default: "16777216", Line: "Largest replay lag of a streaming replica that counts as caught up."},
		{Name: "password_file", Kind: SettingFile, With: []string{"username"}, Line: "File with the password of `username`, read for each call."},
		{Name: "port", Kind: SettingPort, Default: "8008", Line: "Port of Patroni's REST API on every member, open to the group."},
		{Name: "scope", Kind: SettingText, Line: "Scope that Patroni must serve. Absent: any."},
		{Name: "username", Kind: SettingText, With: []string{"password_file"}, Line: "User of the unsafe REST methods, where `restapi.authentication` is set."},
		versionSetting("PostgreSQL", "15"),
	}},
	WorkloadCustom: customKind,
	WorkloadEtcd: {voters: true, set: setTraits{changes: true, adds: true, leavesAlive: true}, settings: []Setting{
		{Name: "ca_file", Kind: SettingFile, Line: "CA of the client port's certificates, which are valid for 127.0.0.1 and the members' Peer addresses. Absent: plain text."},
		{Name: "cert_file", Kind: SettingFile, With: []string{"ca_file", "key_file"}, Line: "Certificate of the agent, read for each handshake."},
		{Name: "client_port", Kind: SettingPort, Default: "2379", Line: "Client port on every member."},
		{Name: "key_file", Kind: SettingFile, With: []string{"ca_file", "cert_file"}, Line: "Key of that certificate."},
		{Name: "password_file", Kind: SettingFile, With: []string{"user"}, Line: "File with the password of `user`, read for each login."},
		{Name: "user", Kind: SettingText, With: []string{"password_file"}, Line: "User with the role `root`, where etcd's authentication is on. Absent: no login; the common name of `cert_file` may be such a user."},
		versionSetting("etcd", "3.6.16"),
	}},
}

// RecordsData reports that the Slots' records of such a group keep the version of their data: its spec uses
// the version rules explicitly, which no older coordinator can read.
func (s Spec) RecordsData() bool {
	return s.UpdatePolicy.Irreversible != "" || s.Workload.Settings[SettingVersion] != ""
}

// HasVoters reports whether the group's members vote among themselves, so that a
// majority of them must stay (R17, R19, R44).
func HasVoters(s Spec) bool { return s.Workload.traits().voters }

// HasDriver reports whether a driver knows the workload: then roles, lag and
// MayDisrupt of its reports count.
func HasDriver(s Spec) bool { return s.Workload.Kind != "" && s.Workload.Kind != WorkloadNone }

// StopsLeader reports whether the leader is stopped without a transfer: its workload elects the next
// leader when it stops. It still goes last.
func StopsLeader(s Spec) bool { return s.Workload.traits().stopsLeader }
