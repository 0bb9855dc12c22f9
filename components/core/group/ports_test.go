package group

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func problemAt(t *testing.T, s Spec, path string) string {
	t.Helper()
	var invalid *ValidationError
	if err := Validate(s); errors.As(err, &invalid) {
		for _, p := range invalid.Problems {
			if p.Path == path {
				return p.Message
			}
		}
	}
	return ""
}

// TestOVL08_ABackendIsNoPortOfCadresOwn: a group offers no port of the agent, Consul or dstack, and
// the refusal names the owner of the port.
func TestOVL08_ABackendIsNoPortOfCadresOwn(t *testing.T) {
	for _, own := range ownPorts {
		for _, protocol := range []string{"tcp", "udp"} {
			s := goodSpec()
			s.Backends = []Backend{{Name: "pg", Port: 5432}, {Name: "admin", Protocol: protocol, Port: own.port}}
			got := problemAt(t, s, `backend["admin"].port`)
			if !strings.Contains(got, own.owner) || !strings.Contains(got, "another port") {
				t.Errorf("%s %d: problem %q", protocol, own.port, got)
			}
			if other := problemAt(t, s, `backend["pg"].port`); other != "" {
				t.Errorf("5432: problem %q", other)
			}
		}
	}
}

// TestHK01_NoHookOrCheckAsksAPortOfCadresOwn: hooks and checks share the agent's loopback.
func TestHK01_NoHookOrCheckAsksAPortOfCadresOwn(t *testing.T) {
	for _, own := range ownPorts {
		s := goodSpec()
		s.LifecycleHooks = []LifecycleHook{{Name: "h", Transition: PreTerminate, HTTP: &HTTPAction{Port: own.port, Path: "/"}}}
		s.HealthChecks = []HealthCheck{{Name: "web", HTTP: &HTTPCheck{Port: own.port, RequestPath: "/"}}, {Name: "plain", TCP: &TCPCheck{Port: own.port}}}
		for _, path := range []string{`lifecycle_hook["h"].http.port`, `health_check["web"].http.port`, `health_check["plain"].tcp.port`} {
			if got := problemAt(t, s, path); !strings.Contains(got, own.owner) {
				t.Errorf("%s is %d: problem %q", path, own.port, got)
			}
		}
	}
}

func TestABackendsAddressIsDeclared(t *testing.T) {
	for address, good := range map[string]bool{"": true, "127.0.0.1": true, "127.0.0.2": false, "0.0.0.0": false, "localhost": false, "10.0.0.1": false} {
		s := goodSpec()
		s.Backends = []Backend{{Name: "b", Port: 9000, Address: address}}
		if got := problemAt(t, s, `backend["b"].address`); (got == "") != good {
			t.Errorf("address %q: problem %q", address, got)
		}
	}
	s := goodSpec()
	s.Backends = []Backend{{Name: "b", Protocol: "udp", Port: 9000, Address: "127.0.0.1"}}
	if got := problemAt(t, s, `backend["b"].address`); !strings.Contains(got, "udp") {
		t.Errorf("a udp backend on 127.0.0.1: problem %q", got)
	}
}

func TestTheListOfOwnPorts(t *testing.T) {
	private := PrivatePorts()
	for _, p := range ConsulPorts() {
		if !strings.Contains(PortOwner(p), "Consul") {
			t.Errorf("Consul's %d belongs to %q", p, PortOwner(p))
		}
	}
	for _, p := range []uint16{ConsulRPCPort, ConsulGossipPort} {
		if slices.Contains(private, p) {
			t.Errorf("Peers need %d", p)
		}
	}
	moved := PrivatePorts("127.0.0.1:7171", ":7544", "nothing")
	if !slices.Contains(moved, 7171) || !slices.Contains(moved, 7544) || len(moved) != len(private)+2 {
		t.Errorf("private ports with moved ones %v", moved)
	}
	if len(private) != len(ownPorts)-2 || !slices.Contains(private, AgentAPIPort) || PortOwner(5432) != "" {
		t.Errorf("private ports %v", private)
	}
}

func TestServicePort(t *testing.T) {
	etcd := Workload{Kind: WorkloadEtcd}
	for name, c := range map[string]struct {
		spec Spec
		want int
	}{
		"nothing says one":              {Spec{Name: "web"}, 0},
		"the only backend":              {Spec{Name: "web", Backends: []Backend{{Name: "http", Port: 8080}}}, 8080},
		"the one with the group's name": {Spec{Name: "web", Backends: []Backend{{Name: "admin", Port: 9000}, {Name: "web", Port: 8080}}}, 8080},
		"two of other names":            {Spec{Name: "web", Backends: []Backend{{Name: "a", Port: 9000}, {Name: "b", Port: 8080}}}, 0},
		"UDP counts for nothing":        {Spec{Name: "web", Backends: []Backend{{Name: "web", Port: 53, Protocol: "udp"}, {Name: "a", Protocol: "tcp", Port: 8080}}}, 8080},
		"PostgreSQL":                    {Spec{Name: "pg", Workload: Workload{Kind: WorkloadPatroni}}, 5432},
		"PostgreSQL behind a backend":   {Spec{Name: "pg", Workload: Workload{Kind: WorkloadPatroni}, Backends: []Backend{{Name: "sql", Port: 6432}}}, 6432},
		"etcd":                          {Spec{Name: "kv", Workload: etcd}, 2379},
		"etcd at another port":          {Spec{Name: "kv", Workload: Workload{Kind: WorkloadEtcd, Settings: map[string]string{"client_port": "12379"}}}, 12379},
		"etcd with two backends":        {Spec{Name: "kv", Workload: etcd, Backends: []Backend{{Name: "a", Port: 1}, {Name: "b", Port: 2}}}, 2379},
	} {
		if got := c.spec.ServicePort(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
