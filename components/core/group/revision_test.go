package group

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestR3_RevisionIsTheContent(t *testing.T) {
	base := func() Spec {
		s := goodSpec()
		s.Template = Template{Compose: "x", Env: map[string]string{"A": "1", "B": "2"}, InstanceType: "s", OSImage: "o", DiskGB: 10}
		return s
	}
	rev := base().Revision()
	if !isHex(rev, 32) {
		t.Fatalf("revision %q is not 32 hex digits", rev)
	}
	seen := map[string]string{rev: "nothing"}
	for name, change := range map[string]func(*Spec){
		"compose":               func(s *Spec) { s.Template.Compose = "y" },
		"compose blank at end":  func(s *Spec) { s.Template.Compose = "x " },
		"compose newline":       func(s *Spec) { s.Template.Compose = "x\n" },
		"env value":             func(s *Spec) { s.Template.Env = map[string]string{"A": "1", "B": "3"} },
		"env name":              func(s *Spec) { s.Template.Env = map[string]string{"A": "1", "C": "2"} },
		"env gone":              func(s *Spec) { s.Template.Env = nil },
		"env split differently": func(s *Spec) { s.Template.Env = map[string]string{"A": "1B2"} },
		"instance type":         func(s *Spec) { s.Template.InstanceType = "m" },
		"os image":              func(s *Spec) { s.Template.OSImage = "p" },
		"type and image joined": func(s *Spec) { s.Template.InstanceType, s.Template.OSImage = "so", "" },
		"disk":                  func(s *Spec) { s.Template.DiskGB = 20 },
		"group":                 func(s *Spec) { s.Name = "postgres2" },
		"restart token":         func(s *Spec) { s.RestartToken = "again" },
	} {
		other := base()
		change(&other)
		if same, ok := seen[other.Revision()]; ok {
			t.Errorf("%s gives the revision of %s", name, same)
		}
		seen[other.Revision()] = name
	}
}

// TestHK03_TheRevisionCoversTheActionsOfAgents: rollouts and approvals cover every call, command and check that a spec
// gives to an agent.
func TestHK03_TheRevisionCoversTheActionsOfAgents(t *testing.T) {
	seen := map[string]string{goodSpec().Revision(): "nothing"}
	for name, change := range map[string]func(*Spec){
		"the driver":          func(s *Spec) { s.Workload = Workload{Kind: WorkloadEtcd} },
		"a setting":           func(s *Spec) { s.Workload.Settings = map[string]string{"port": "8009"} },
		"no setting":          func(s *Spec) { s.Workload.Settings = nil },
		"a hook's call":       func(s *Spec) { s.LifecycleHooks[0].HTTP.Path = "/other" },
		"a hook's method":     func(s *Spec) { s.LifecycleHooks[0].HTTP.Method = "PUT" },
		"a hook's service":    func(s *Spec) { s.LifecycleHooks[1].Exec.Service = "other" },
		"a hook's command":    func(s *Spec) { s.LifecycleHooks[1].Exec.Command = "other" },
		"a hook's transition": func(s *Spec) { s.LifecycleHooks[1].Transition = PreTerminate },
		"a hook's result":     func(s *Spec) { s.LifecycleHooks[1].DefaultResult = HookContinue },
		"a hook's time":       func(s *Spec) { s.LifecycleHooks[1].MaxDuration = minutes(7) },
		"a hook less":         func(s *Spec) { s.LifecycleHooks = s.LifecycleHooks[:1] },
		"a check's path":      func(s *Spec) { s.HealthChecks[0].HTTP.RequestPath = "/" },
		"a check's kind":      func(s *Spec) { s.HealthChecks[0].HTTP, s.HealthChecks[0].TCP = nil, &TCPCheck{Port: 8008} },
		"a check's threshold": func(s *Spec) { s.HealthChecks[0].UnhealthyThreshold = 9 },
		"no check":            func(s *Spec) { s.HealthChecks = nil },
	} {
		other := goodSpec()
		change(&other)
		if same, ok := seen[other.Revision()]; ok {
			t.Errorf("%s gives the revision of %s", name, same)
		}
		seen[other.Revision()] = name
	}
}

func TestR3_DefaultsWrittenOutAreNoChange(t *testing.T) {
	short := goodSpec()
	short.LifecycleHooks = []LifecycleHook{{Name: "drain", Transition: PreTerminate, HTTP: &HTTPAction{Port: 8008, Path: "/drain"}}}
	short.HealthChecks = []HealthCheck{{Name: "ready", HTTP: &HTTPCheck{Port: 8008, RequestPath: "/readiness"}}}
	long := short.clone()
	long.Normalize()
	if long.LifecycleHooks[0].MaxDuration == short.LifecycleHooks[0].MaxDuration {
		t.Fatal("there is no default to write out")
	}
	if short.Revision() != long.Revision() {
		t.Error("a default that is written out changes the revision")
	}
	if short.LifecycleHooks[0].MaxDuration != 0 || short.LifecycleHooks[0].HTTP.Method != "" {
		t.Error("naming the revision changes the spec")
	}
	if one := short.With(long.AgentSpec()); one.Revision() != long.Revision() || one.LifecycleHooks[0].MaxDuration == 0 {
		t.Error("a agent spec that is put back is not the same")
	}
}

func TestR3_GoingBackGivesTheEarlierRevision(t *testing.T) {
	a := Spec{Template: Template{Compose: "a", Env: map[string]string{}}}
	first := a.Revision()
	a.Template.Compose = "b"
	if a.Revision() == first {
		t.Fatal("b has the revision of a")
	}
	a.Template.Compose, a.Template.Env = "a", nil
	if got := a.Revision(); got != first {
		t.Errorf("going back gives %s, want %s", got, first)
	}
}

func TestR3_SizeAndRoutesChangeNoRevision(t *testing.T) {
	s := goodSpec()
	rev := s.Revision()
	s.Replicas, s.UpdatePolicy.HealthyDeadline, s.Meta = 9, minutes(60), map[string]string{"x": "y"}
	if s.Revision() != rev {
		t.Error("size, deadlines or meta changed the revision")
	}
	s.Backends, s.Routes, s.ConsulPermissions = routed().Backends, routed().Routes, routed().ConsulPermissions
	if s.Revision() != rev {
		t.Error("routes, registrations or permissions changed the revision")
	}
}

func TestSlotNames(t *testing.T) {
	for _, slot := range []string{"postgres-0", "a-b-17", "a1-99", "a-1999"} {
		group, ordinal, err := ParseSlot(slot)
		if err != nil || SlotName(group, ordinal) != slot {
			t.Errorf("ParseSlot(%q) = %q %d %v", slot, group, ordinal, err)
		}
	}
	for _, slot := range []string{"", "-0", "a", "a-", "a-01", "a-+1", "a--1", "a-2000", "a-1x", "A-1", "a_b-1", strings.Repeat("a", 41) + "-1"} {
		if group, ordinal, err := ParseSlot(slot); err == nil {
			t.Errorf("ParseSlot(%q) = %q %d, want an error", slot, group, ordinal)
		}
	}
}

func TestAgentConfigCarriesTheInputsOfAgents(t *testing.T) {
	s := goodSpec()
	c := s.AgentConfig("postgres-1", "rev")
	if c.Group != "postgres" || c.Slot != "postgres-1" || c.Revision != "rev" || len(c.Members) != 3 || c.Members[2] != "postgres-2" ||
		len(c.LifecycleHooks) != 2 || len(c.HealthChecks) != 1 || c.Workload.Kind != "patroni" || c.Meta["tier"] != "db" {
		t.Errorf("agent config %+v", c)
	}
}

func TestATT25_ContentIsTheMeasuredPartOfATemplate(t *testing.T) {
	a := Template{Compose: "services: {}\n", OSImage: "dstack-0.5.7", InstanceType: "tdx.small"}
	same, text, image := a, a, a
	same.Env, same.InstanceType, same.DiskGB = map[string]string{"A": "b"}, "tdx.large", 9
	text.Compose += " "
	image.OSImage = "dstack-0.5.8"
	if Content(a) != Content(same) {
		t.Error("what is not measured is part of it")
	}
	if Content(a) == Content(text) || Content(a) == Content(image) || Content(text) == Content(image) {
		t.Error("what is measured is no part of it")
	}
	if isHex(Content(a), revisionHexLen) {
		t.Error("it looks like a revision")
	}
}

// A moved block changes nothing, except a hook of the same transition: hooks run in the file's
// order.
func TestTheOrderOfBlocksIsNoChange(t *testing.T) {
	hook := func(name string, at Transition) LifecycleHook {
		return LifecycleHook{Name: name, Transition: at, Wait: &WaitAction{}}
	}
	spec := goodSpec()
	spec.LifecycleHooks = []LifecycleHook{hook("b", PreTerminate), hook("a", PreTerminate), hook("c", PostLaunch)}
	spec.HealthChecks = []HealthCheck{{Name: "live", TCP: &TCPCheck{Port: 80}}, {Name: "ready", HTTP: &HTTPCheck{Port: 80, RequestPath: "/"}}, {Name: "word", TTL: &TTLCheck{TTLSec: 5}}}
	spec.Backends = []Backend{{Name: "a", Port: 1}, {Name: "b", Port: 2}}
	spec.Routes = []Route{{Name: "a", Backend: "a"}, {Name: "b", Backend: "b"}}
	spec.Secrets = []Secret{{Name: "a"}, {Name: "b"}}
	spec.Instances = []InstanceSettings{{Ordinal: 2}, {Ordinal: 10}}
	for name, c := range map[string]struct {
		move    func(*Spec)
		changes bool
	}{
		"checks": {func(s *Spec) { slices.Reverse(s.HealthChecks) }, false},
		"hooks of two transitions": {func(s *Spec) {
			s.LifecycleHooks = []LifecycleHook{s.LifecycleHooks[2], s.LifecycleHooks[0], s.LifecycleHooks[1]}
		}, false},
		"hooks of the same":         {func(s *Spec) { s.LifecycleHooks[0], s.LifecycleHooks[1] = s.LifecycleHooks[1], s.LifecycleHooks[0] }, true},
		"backends, routes, secrets": {func(s *Spec) { slices.Reverse(s.Backends); slices.Reverse(s.Routes); slices.Reverse(s.Secrets) }, false},
		"instances":                 {func(s *Spec) { slices.Reverse(s.Instances) }, false},
	} {
		moved := spec.clone()
		moved.Routes, moved.Instances = slices.Clone(spec.Routes), slices.Clone(spec.Instances)
		c.move(&moved)
		written := moved.clone()
		if changes := Changes(spec, moved); c.changes != (len(changes) > 0) || c.changes != (spec.Revision() != moved.Revision()) {
			t.Errorf("%s: changes %v, revisions %s and %s", name, changes, spec.Revision(), moved.Revision())
		}
		if !reflect.DeepEqual(moved, written) {
			t.Errorf("%s: to compare sorted the caller's blocks", name)
		}
	}
}
