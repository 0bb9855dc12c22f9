package group

import (
	"strings"
	"testing"
)

func TestR3_RevisionIsTheContent(t *testing.T) {
	base := Template{Compose: "x", Env: map[string]string{"A": "1", "B": "2"}, InstanceType: "s", OSImage: "o", DiskGB: 10}
	rev := Revision(base, "")
	if !isHex(rev, 32) {
		t.Fatalf("revision %q is not 32 hex digits", rev)
	}
	for name, change := range map[string]func(*Template){
		"compose":               func(t *Template) { t.Compose = "y" },
		"compose blank at end":  func(t *Template) { t.Compose = "x " },
		"compose newline":       func(t *Template) { t.Compose = "x\n" },
		"env value":             func(t *Template) { t.Env = map[string]string{"A": "1", "B": "3"} },
		"env name":              func(t *Template) { t.Env = map[string]string{"A": "1", "C": "2"} },
		"env gone":              func(t *Template) { t.Env = nil },
		"env split differently": func(t *Template) { t.Env = map[string]string{"A": "1B2"} },
		"instance type":         func(t *Template) { t.InstanceType = "m" },
		"os image":              func(t *Template) { t.OSImage = "p" },
		"type and image joined": func(t *Template) { t.InstanceType, t.OSImage = "so", "" },
		"disk":                  func(t *Template) { t.DiskGB = 20 },
	} {
		other := base
		change(&other)
		if Revision(other, "") == rev {
			t.Errorf("%s does not change the revision", name)
		}
	}
	if Revision(base, "again") == rev {
		t.Error("the restart token does not change the revision")
	}
}

func TestR3_GoingBackGivesTheEarlierRevision(t *testing.T) {
	a := Template{Compose: "a", Env: map[string]string{}}
	first := Revision(a, "")
	a.Compose = "b"
	if Revision(a, "") == first {
		t.Fatal("b has the revision of a")
	}
	a.Compose, a.Env = "a", nil
	if got := Revision(a, ""); got != first {
		t.Errorf("going back gives %s, want %s", got, first)
	}
}

func TestR3_WhatIsNotMeasuredIsNotPartOfIt(t *testing.T) {
	s := goodSpec()
	rev := Revision(s.Template, s.RestartToken)
	s.Replicas, s.UpdatePolicy.HealthyDeadline, s.Meta = 9, minutes(60), map[string]string{"x": "y"}
	if Revision(s.Template, s.RestartToken) != rev {
		t.Error("size, deadlines or meta changed the revision")
	}
}

func TestSlotNames(t *testing.T) {
	for _, slot := range []string{"postgres-0", "a-b-17", "a1-99"} {
		group, ordinal, err := ParseSlot(slot)
		if err != nil || SlotName(group, ordinal) != slot {
			t.Errorf("ParseSlot(%q) = %q %d %v", slot, group, ordinal, err)
		}
	}
	for _, slot := range []string{"", "-0", "a", "a-", "a-01", "a-+1", "a--1", "a-100", "a-1x", "A-1", "a_b-1", strings.Repeat("a", 41) + "-1"} {
		if group, ordinal, err := ParseSlot(slot); err == nil {
			t.Errorf("ParseSlot(%q) = %q %d, want an error", slot, group, ordinal)
		}
	}
}

func TestAgentConfigCarriesWhatAgentsActOn(t *testing.T) {
	s := goodSpec()
	c := s.AgentConfig("postgres-1", "rev")
	if c.Group != "postgres" || c.Slot != "postgres-1" || c.Revision != "rev" || len(c.Members) != 3 || c.Members[2] != "postgres-2" ||
		len(c.LifecycleHooks) != 2 || len(c.HealthChecks) != 1 || c.Workload.Kind != "patroni" || c.Meta["tier"] != "db" {
		t.Errorf("agent config %+v", c)
	}
}

func TestATT25_ContentIsWhatIsMeasured(t *testing.T) {
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
	if isHex(Content(a), len(Revision(a, ""))) {
		t.Error("it looks like a revision")
	}
}
