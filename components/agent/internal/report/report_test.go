package report

import (
	"slices"
	"testing"
	"time"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/agent/internal/health"
	"cadre.dev/agent/internal/lifecycle"
	"cadre.dev/agent/internal/member"
	"cadre.dev/agent/internal/selfreport"
	"cadre.dev/core/rollout"
	"google.golang.org/protobuf/proto"
)

func yes() *bool { v := true; return &v }
func no() *bool  { v := false; return &v }

func TestVerdict(t *testing.T) {
	good := member.State{Known: true, View: driver.View{Liveness: driver.LivenessAlive, Ready: true, CaughtUp: yes()}}
	with := func(change func(*member.State)) member.State { s := good; change(&s); return s }
	check := func(h rollout.Health) []health.Result {
		return []health.Result{{Name: "a", Health: rollout.Healthy}, {Name: "b", Health: h}}
	}
	for name, tc := range map[string]struct {
		state  member.State
		checks []health.Result
		want   verdict
	}{
		"everything says so":            {good, check(rollout.Healthy), healthy},
		"no checks":                     {good, nil, healthy},
		"a check is unknown":            {good, check(rollout.Unknown), unknown},
		"a check is unhealthy":          {good, check(rollout.Unhealthy), unhealthy},
		"member is not known":           {member.State{}, nil, unknown},
		"member is down":                {with(func(s *member.State) { s.View.Liveness, s.View.Ready = driver.LivenessRefused, false }), nil, unhealthy},
		"member is not ready":           {with(func(s *member.State) { s.View.Ready = false }), nil, unhealthy},
		"catch-up is not known":         {with(func(s *member.State) { s.View.CaughtUp = nil }), nil, unknown},
		"member is behind":              {with(func(s *member.State) { s.View.CaughtUp = no() }), nil, unhealthy},
		"unknown hides no bad news":     {member.State{}, check(rollout.Unhealthy), unhealthy},
		"a new check is not judged yet": {good, []health.Result{{Name: "a", Health: rollout.Healthy}, {Name: "b", Health: rollout.Unknown, Pending: true}}, healthy},
		"an informative check":          {good, []health.Result{{Name: "a", Health: rollout.Unhealthy, Informative: true}, {Name: "b", Health: rollout.Unknown, Informative: true}}, healthy},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (&Builder{}).verdict(tc.state, tc.checks); got != tc.want {
				t.Errorf("verdict = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestStreak(t *testing.T) {
	start := time.Now()
	var s streak
	for i, one := range []struct {
		at   time.Duration
		v    verdict
		want time.Duration
	}{
		{0, unknown, 0},
		{1 * time.Second, healthy, 0},
		{5 * time.Second, healthy, 4 * time.Second},
		{6 * time.Second, unknown, 5 * time.Second},  // one probe timed out
		{8 * time.Second, unknown, 7 * time.Second},  // within the grace
		{9 * time.Second, healthy, 8 * time.Second},  // not broken
		{10 * time.Second, unknown, 9 * time.Second}, // the grace starts again
		{14 * time.Second, unknown, 0},               // too long
		{15 * time.Second, healthy, 0},
		{20 * time.Second, healthy, 5 * time.Second},
		{21 * time.Second, unhealthy, 0},
		{22 * time.Second, healthy, 0},
	} {
		if got := s.add(one.v, start.Add(one.at)); got != one.want {
			t.Fatalf("entry %d at %s: streak = %s, want %s", i, one.at, got, one.want)
		}
	}
}

// A workload's output must not be able to stop reports.
func TestReportWithHostileTextIsEncodable(t *testing.T) {
	bad := string([]byte{0xff, 0xfe}) + string(make([]byte, 511)) + "é"
	b := NewBuilder(Sources{
		AgentSpec: func() string { return "rev" },
		Faults:    func() []string { return []string{bad} },
		Epochs:    func() map[string]uint32 { return map[string]uint32{"password": 2} },
		Backends:  func() []selfreport.State { return nil },
		Member: func() member.State {
			return member.State{Known: true, View: driver.View{Message: bad, MayDisruptReason: bad}}
		},
		Checks:  func() []health.Result { return []health.Result{{Name: "a", Message: bad}} },
		Results: func() []lifecycle.Result { return []lifecycle.Result{{Message: bad}} },
	})
	if _, err := proto.Marshal(b.Build()); err != nil {
		t.Errorf("marshal = %v", err)
	}
}

// TestAMemberThatRefusesWritesIsHealthyAndSaysSo: the report names the fault, and neither health
// nor readiness depends on it. Otherwise the revision that repairs the fault would wait for the
// repair.
func TestAMemberThatRefusesWritesIsHealthyAndSaysSo(t *testing.T) {
	s := member.State{Known: true, View: driver.View{Liveness: driver.LivenessAlive, Ready: true, CaughtUp: yes(), MayDisrupt: true, Fault: "it refuses every write"}}
	b := NewBuilder(Sources{
		AgentSpec: func() string { return "rev" }, Faults: func() []string { return []string{"the disk is full"} },
		Epochs: func() map[string]uint32 { return nil }, Backends: func() []selfreport.State { return nil },
		Member: func() member.State { return s }, Checks: func() []health.Result { return nil }, Results: func() []lifecycle.Result { return nil },
	})
	if got := b.Build(); !slices.Equal(got.GetFaults(), []string{"the disk is full", "it refuses every write"}) || !got.GetMember().GetReady() || !got.GetMember().GetMayDisrupt() {
		t.Errorf("report = %v", got)
	}
	if got := b.verdict(s, nil); got != healthy {
		t.Errorf("verdict = %v", got)
	}
}
