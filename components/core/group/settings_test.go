package group

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestEverySettingHasARow: a row that fits into a table, with a default that would be taken.
func TestEverySettingHasARow(t *testing.T) {
	for _, kind := range WorkloadKinds() {
		all := SettingsOf(kind)
		if !slices.IsSortedFunc(all, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("%s: not in the order of their names", kind)
		}
		w := Workload{Kind: kind}
		if kind == WorkloadCustom {
			w.Settings = map[string]string{"http": "127.0.0.1:9900"} // an adapter has no default
		}
		values, err := w.ReadSettings()
		if err != nil || len(values) != len(all) {
			t.Errorf("%s: %v, %v", kind, values, err)
		}
		for _, s := range all {
			if problem := s.problem(s.Default); problem != "" || w.Settings[s.Name] == "" && values[s.Name] != s.Default {
				t.Errorf("%s %s: the default %q is read as %q: %s", kind, s.Name, s.Default, values[s.Name], problem)
			}
			if s.Kind == "" || !strings.HasSuffix(s.Line, ".") || strings.ContainsAny(s.Line, "|\n") {
				t.Errorf("%s %s: wants a kind, and a line that ends with a full stop and fits into a table: %+v", kind, s.Name, s)
			}
			for _, other := range s.With {
				if !slices.ContainsFunc(all, func(o Setting) bool { return o.Name == other }) {
					t.Errorf("%s %s goes with %s, which is no setting", kind, s.Name, other)
				}
			}
		}
	}
	if _, err := (Workload{Kind: "kafka"}).ReadSettings(); err == nil {
		t.Error("an unknown kind has settings")
	}
}

// TestSettingsAreJudgedBeforeAgentsAre: a value that its driver cannot use would be found out by a
// member that is down for it.
func TestSettingsAreJudgedBeforeAgentsAre(t *testing.T) {
	tls := map[string]string{"ca_file": "/run/ca.pem", "cert_file": "/run/cert.pem", "key_file": "/run/key.pem"}
	but := func(m map[string]string, name, value string) map[string]string {
		m = maps.Clone(m)
		m[name] = value
		return m
	}
	one := func(name, value string) map[string]string { return map[string]string{name: value} }
	for _, c := range []struct {
		kind     string
		settings map[string]string
		at, says string
	}{
		{"patroni", one("port", "8009"), "", ""},
		{"patroni", one("port", ""), "", ""},
		{"patroni", one("port", "abc"), "port", "not a port number"},
		{"patroni", one("port", "0"), "port", "not a port number"},
		{"patroni", one("port", "65536"), "port", "not a port number"},
		{"patroni", one("max_lag_bytes", "0"), "", ""},
		{"patroni", one("max_lag_bytes", "x"), "max_lag_bytes", "not a number of bytes"},
		{"patroni", one("max_lag_bytes", "1MB"), "max_lag_bytes", "without a unit"},
		{"patroni", one("max_lag_bytes", "-1"), "max_lag_bytes", "not a number of bytes"},
		{"patroni", one("max_lag_bytes", "9223372036854775808"), "max_lag_bytes", "not a number of bytes"},
		{"patroni", one("scope", "pg\nb"), "scope", "line break"},
		{"patroni", one("scope", strings.Repeat("a", 1025)), "scope", "more than 1024 bytes"},
		{"patroni", one("prot", "1"), "prot", "known: ca_file, cert_file, key_file, max_lag_bytes, password_file, port, scope, username, version"},
		{"patroni", one("version", "17.2"), "", ""},
		{"etcd", one("version", "latest"), "version", "not a version"},
		{"etcd", one("version", "3.6.x"), "version", "not a version"},
		{"patroni", one("username", "admin"), "username", "does nothing without password_file"},
		{"patroni", one("password_file", "/run/p"), "password_file", "does nothing without username"},
		{"patroni", map[string]string{"username": "admin", "password_file": "/run/mesh/secrets/rest"}, "", ""},
		{"patroni", map[string]string{"username": "admin", "password_file": "rest"}, "password_file", "absolute path"},
		{"custom", map[string]string{"http": "127.0.0.1:9900", "voters": "true", "set": "adds", "hand_over": "stop"}, "", ""},
		{"custom", one("http", "[::1]:9900"), "", ""},
		{"custom", one("exec_service", "broker"), "", ""},
		{"custom", one("http", "10.0.0.1:9900"), "http", "is no loopback address"},
		{"custom", one("http", "localhost:9900"), "http", "write 127.0.0.1:PORT"},
		{"custom", one("http", "127.0.0.1"), "http", "is not host:port"},
		{"custom", map[string]string{"http": "127.0.0.1:9900", "voters": "yes"}, "voters", "use one of false, true"},
		{"custom", map[string]string{"http": "127.0.0.1:9900", "exec_service": "broker"}, "http", "either http"},
		{"custom", nil, "http", "either http"},
		{"custom", one("exec_service", "My Service"), "exec_service", "name a service"},
		{"consul", one("http_addr", "127.0.0.1:8510"), "", ""},
		{"consul", one("http_addr", "[::1]:8510"), "", ""},
		{"consul", one("http_addr", "localhost"), "http_addr", `not host:port, such as "127.0.0.1:8500"`},
		{"consul", one("http_addr", ":8500"), "http_addr", "not host:port"},
		{"consul", one("http_addr", "a:0"), "http_addr", "not host:port"},
		{"consul", one("http_addr", "http://a:1"), "http_addr", "not host:port"},
		{"consul", one("http_addr", "a:1/x"), "http_addr", "not host:port"},
		{"consul", one("token_file", "token"), "token_file", "absolute path"},
		{"consul", one("token_file", "/run/../token"), "token_file", "absolute path"},
		{"etcd", tls, "", ""},
		{"consul", tls, "", ""},
		{"consul", but(tls, "ca_file", ""), "cert_file", "without ca_file"},
		{"etcd", one("ca_file", "/run/ca.pem"), "", ""},
		{"etcd", but(tls, "ca_file", ""), "cert_file", "without ca_file"},
		{"etcd", map[string]string{"user": "root", "password_file": "/run/mesh/secrets/etcd"}, "", ""},
		{"etcd", one("user", "root"), "user", "does nothing without password_file"},
		{"etcd", one("password_file", "/run/p"), "password_file", "does nothing without user"},
		{"etcd", but(tls, "key_file", ""), "cert_file", "without key_file"},
		{"etcd", but(tls, "key_file", "key.pem"), "key_file", "absolute path"},
		{"etcd", one("client_port", "x"), "client_port", "not a port number"},
		{"none", one("port", "1"), "port", `is not a setting of workload "none"; known: none`},
	} {
		s := goodSpec()
		s.Workload = Workload{Kind: c.kind, Settings: c.settings}
		got := problems(t, s)
		found := slices.ContainsFunc(got, func(p string) bool {
			return strings.HasPrefix(p, `workload.settings["`+c.at+`"]: `) && strings.Contains(p, c.says)
		})
		if c.at == "" && len(got) > 0 || c.at != "" && !found {
			t.Errorf("%s %v: %v, want %q at %q", c.kind, c.settings, got, c.says, c.at)
		}
		// The driver reads the same settings.
		if _, err := s.Workload.ReadSettings(); (err == nil) != (c.at == "") {
			t.Errorf("%s %v: its driver is told %v", c.kind, c.settings, err)
		}
	}
}

// TestAnAdapterNeedsTheCommandsOfItsSettings.
func TestAnAdapterNeedsTheCommandsOfItsSettings(t *testing.T) {
	for want, w := range map[string]Workload{
		"":                              {Kind: "custom", Settings: map[string]string{"http": "127.0.0.1:9900"}},
		" ":                             {Kind: "none"},
		"db/member db/drain db/undrain": {Kind: "custom", Settings: map[string]string{"exec_service": "db", "hand_over": "stop"}},
		"db/member db/drain db/undrain db/transfer db/set": {Kind: "custom", Settings: map[string]string{"exec_service": "db", "set": "changes"}},
	} {
		var got []string
		for _, a := range w.AdapterCommands() {
			got = append(got, a.Service+"/"+a.Command)
		}
		if strings.Join(got, " ") != strings.TrimSpace(want) {
			t.Errorf("%+v needs %q, want %q", w, got, want)
		}
	}
}

// TestAStoppedLeaderNeedsVoters: without voters no rule keeps the majority that elects the next leader.
func TestAStoppedLeaderNeedsVoters(t *testing.T) {
	for _, c := range []struct {
		voters, handOver string
		want             bool
	}{{"false", HandOverEnd, true}, {"", HandOverEnd, true}, {"true", HandOverEnd, false}, {"false", HandOver, false}} {
		s := Spec{Replicas: 3, Workload: Workload{Kind: WorkloadCustom, Settings: map[string]string{"http": "127.0.0.1:9900", "voters": c.voters, "hand_over": c.handOver}}}
		if got := strings.Join(Warnings(s), "\n"); strings.HasPrefix(got, `no_majority: workload.settings["hand_over"]`) != c.want {
			t.Errorf("voters %q, hand_over %q: %q", c.voters, c.handOver, got)
		}
	}
}
