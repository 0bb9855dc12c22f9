package catalog

import (
	"testing"

	"cadre.dev/core/rollout"
)

func member(change func(*Member)) Member {
	m := Member{
		Records: Records{Group: "pg", Slot: "pg-1", Boot: "b1", VIP: "127.50.1.2", Leased: true}, Sequence: 7,
		Report: &rollout.Report{MemberView: rollout.MemberView{Role: rollout.RoleFollower}}, Workload: rollout.Healthy,
	}
	if change != nil {
		change(&m)
	}
	return m
}

func TestWant(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Member)
		role   string
		ready  bool
		why    string
	}{
		"healthy":      {nil, "follower", true, WhyHealthy},
		"leads":        {func(m *Member) { m.Report.Role = rollout.RoleLeader }, "leader", true, WhyHealthy},
		"no roles":     {func(m *Member) { m.Report.Role = rollout.RoleNone }, "", true, WhyHealthy},
		"role unknown": {func(m *Member) { m.Report.Role = rollout.RoleUnknown }, "", true, WhyHealthy},
		"unhealthy":    {func(m *Member) { m.Workload = rollout.Unhealthy }, "follower", false, WhyUnhealthy},
		"unknown":      {func(m *Member) { m.Workload = rollout.Unknown }, "follower", false, WhyUnknown},
		"no reading":   {func(m *Member) { m.Workload = "" }, "follower", false, WhyUnhealthy},
		"draining":     {func(m *Member) { m.Draining = true }, "follower", false, WhyDraining},
		"hands over": {func(m *Member) {
			m.Draining, m.HandsOver, m.Report.Role = true, true, rollout.RoleLeader
		}, "leader", true, WhyHealthy},
		"hands over, led before": {func(m *Member) { m.Draining, m.HandsOver = true, true }, "follower", false, WhyDraining},
		"leads when it is stopped": {func(m *Member) {
			m.Draining, m.Report.Role = true, rollout.RoleLeader
		}, "leader", false, WhyDraining},
		"leads no more, and does not know": {func(m *Member) {
			m.Report.Role, m.Report.Epoch, m.Rival = rollout.RoleLeader, 5, 6
		}, "", true, WhyHealthy},
		"leads no more, and is unhealthy": {func(m *Member) {
			m.Report.Role, m.Report.Epoch, m.Rival, m.Workload = rollout.RoleLeader, 5, 6, rollout.Unhealthy
		}, "", false, WhyUnhealthy},
		"another led before": {func(m *Member) {
			m.Report.Role, m.Report.Epoch, m.Rival = rollout.RoleLeader, 5, 4
		}, "leader", true, WhyHealthy},
		"both lead at one epoch": {func(m *Member) {
			m.Report.Role, m.Report.Epoch, m.Rival = rollout.RoleLeader, 5, 5
		}, "leader", true, WhyHealthy},
		"its epoch is not known": {func(m *Member) {
			m.Report.Role, m.Rival = rollout.RoleLeader, 6
		}, "leader", true, WhyHealthy},
		"the other's is not": {func(m *Member) {
			m.Report.Role, m.Report.Epoch = rollout.RoleLeader, 5
		}, "leader", true, WhyHealthy},
		"another leads a follower": {func(m *Member) { m.Report.Epoch, m.Rival = 5, 6 }, "follower", true, WhyHealthy},
		"hands over to a leader": {func(m *Member) {
			m.Draining, m.HandsOver, m.Report.Role, m.Report.Epoch, m.Rival = true, true, rollout.RoleLeader, 5, 6
		}, "", false, WhyDraining},
		"silent":        {func(m *Member) { m.Leased = false }, "", false, WhySilent},
		"not heard yet": {func(m *Member) { m.Report, m.Sequence = nil, 0 }, "", false, WhyNoReport},
	} {
		got := Want(member(c.change))
		if got.Role != c.role || got.Ready != c.ready || got.Why != c.why || got.Boot != "b1" || got.VIP != "127.50.1.2" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestDecide(t *testing.T) {
	found := func(change func(*Found)) Found {
		f := Found{Entry: Want(member(nil)), NodeBoot: "b1", Exists: true, NodeIndex: 5, ServiceIndex: 6}
		if change != nil {
			change(&f)
		}
		return f
	}
	at := func(sequence uint64, change func(*Member)) Entry {
		m := member(change)
		m.Sequence = sequence
		return Want(m)
	}
	worse := func(m *Member) { m.Workload = rollout.Unhealthy }
	for name, c := range map[string]struct {
		found Found
		want  Entry
		step  Step
	}{
		"nothing is there":               {Found{}, at(0, nil), Update},
		"it is as it should be":          {found(nil), at(7, nil), Keep},
		"a later report says the same":   {found(nil), at(9, nil), Keep},
		"a later report says other":      {found(nil), at(8, worse), Update},
		"the records say other":          {found(nil), at(7, func(m *Member) { m.Draining = true }), Update},
		"an older report":                {found(nil), at(6, worse), Keep},
		"no report here, one elsewhere":  {found(nil), at(0, func(m *Member) { m.Report = nil }), Keep},
		"another boot, lower sequence":   {found(func(f *Found) { f.Boot = "b0" }), at(1, nil), Replace},
		"a node without the service":     {found(func(f *Found) { f.ServiceIndex = 0; f.Sequence = 0 }), at(7, nil), Update},
		"a service that is not ours":     {found(func(f *Found) { f.Foreign = true }), at(7, nil), Replace},
		"an agent's node":                {found(func(f *Found) { f.Agent, f.Boot = true, "" }), at(8, worse), Keep},
		"silent":                         {found(nil), at(0, func(m *Member) { m.Leased = false }), Update},
		"silent still":                   {found(func(f *Found) { f.Why, f.Ready, f.Role = WhySilent, false, "" }), at(0, func(m *Member) { m.Leased = false }), Keep},
		"heard again":                    {found(func(f *Found) { f.Why, f.Ready, f.Role = WhySilent, false, "" }), at(8, nil), Update},
		"heard again by an older report": {found(func(f *Found) { f.Why, f.Ready = WhySilent, false }), at(6, nil), Keep},
	} {
		if got := Decide(c.found, c.want); got.Step != c.step {
			t.Errorf("%s: %+v, want %s", name, got, c.step)
		}
	}
}
