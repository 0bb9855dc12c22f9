package adapter_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cadre.dev/core/adapter"
	"cadre.dev/core/group"
)

// An unknown catch-up is absent from the text, and never false.
func TestUnknownCatchUpIsAbsent(t *testing.T) {
	text, err := json.Marshal(adapter.Member{Role: adapter.RoleNone, Liveness: adapter.Alive})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"role":"none","liveness":"alive","ready":false,"may_disrupt":false}`; string(text) != want {
		t.Fatalf("got  %s\nwant %s", text, want)
	}
}

// A list has room for every group whose workload has a driver.
func TestListsHaveRoomForEveryGroup(t *testing.T) {
	if adapter.MaxMembers < group.MaxDriven {
		t.Fatalf("%d members are allowed, a group may have %d", adapter.MaxMembers, group.MaxDriven)
	}
}

func leader() adapter.Member {
	yes := true
	return adapter.Member{
		Role: adapter.RoleLeader, Liveness: adapter.Alive, Ready: true, CaughtUp: &yes, Leader: "k-0", Epoch: 7,
		Voters: []string{"k-0", "k-1", "k-2"}, Learners: []string{"k-3"}, Followers: []string{"k-1"},
		MemberIDs: map[string]string{"k-0": "id0", "k-1": "id1"}, MayDisrupt: true, Version: "4.0",
	}
}

// Every fault has the path of its field, and the honest answers have none.
func TestAMemberIsCheckedAsAWhole(t *testing.T) {
	no, yes, below := false, true, int64(-1)
	for says, change := range map[string]func(m *adapter.Member){
		"": func(*adapter.Member) {},
		" ": func(m *adapter.Member) {
			m.MayDisrupt, m.MayDisruptReason, m.Busy = false, "a backup runs", []string{"backup"}
		},
		"  ": func(m *adapter.Member) {
			*m = adapter.Member{Role: adapter.RoleUnknown, Liveness: adapter.Refused, CaughtUp: &no, Message: "no process listens", MayDisruptReason: "is down"}
		},
		`role: "boss" is unknown: use one of leader, follower, learner, none, unknown`: func(m *adapter.Member) { m.Role = "boss" },
		`liveness: "" is unknown: use one of alive, refused, unknown`:                  func(m *adapter.Member) { m.Liveness = "" },
		`role: is leader, though liveness is "refused"`:                                func(m *adapter.Member) { m.Liveness = adapter.Refused },
		`leader: is empty, though this member leads`:                                   func(m *adapter.Member) { m.Leader = "" },
		`leader: is "k-1", though role says that this member, k-0, leads`:              func(m *adapter.Member) { m.Leader = "k-1" },
		`leader: is this member, though role is "follower"`:                            func(m *adapter.Member) { m.Role, m.Followers = adapter.RoleFollower, nil },
		`leader: "x" is no slot of the group of k-0`:                                   func(m *adapter.Member) { m.Leader = "x" },
		`voters[1]: "k-01" is no slot of the group of k-0`:                             func(m *adapter.Member) { m.Voters[1] = "k-01" },
		`voters[1]: "k-2000" is no slot of the group of k-0`:                           func(m *adapter.Member) { m.Voters[1] = "k-2000" },
		`voters[1]: "kk-1" is no slot of the group of k-0`:                             func(m *adapter.Member) { m.Voters[1] = "kk-1" },
		`voters[1]: "10.0.0.1:9092" is no slot`:                                        func(m *adapter.Member) { m.Voters[1] = "10.0.0.1:9092" },
		`voters[2]: repeats "k-1"`:                                                     func(m *adapter.Member) { m.Voters[2] = "k-1" },
		`voters[2]: is empty`:                                                          func(m *adapter.Member) { m.Voters[2] = "" },
		`voters: is empty, though the member is ready`:                                 func(m *adapter.Member) { m.Voters, m.MemberIDs = nil, nil },
		`voters: lists this member, though its role is learner`: func(m *adapter.Member) {
			m.Role, m.Leader, m.Followers = adapter.RoleLearner, "k-1", nil
		},
		`learners[0]: "k-1" is listed under voters, too`:      func(m *adapter.Member) { m.Learners[0] = "k-1" },
		`followers: lists members, though role is "follower"`: func(m *adapter.Member) { m.Role, m.Leader = adapter.RoleFollower, "k-1" },
		`role: is none, though the answer names members`:      func(m *adapter.Member) { m.Role = adapter.RoleNone },
		`ready: is true, though liveness is "unknown"`:        func(m *adapter.Member) { m.Liveness = adapter.Unknown },
		`ready: is true, though role is unknown`:              func(m *adapter.Member) { m.Role = adapter.RoleUnknown },
		`message: is empty, though ready is false`:            func(m *adapter.Member) { m.Ready = false },
		`caught_up: is true, though liveness is "refused"`:    func(m *adapter.Member) { m.Liveness, m.CaughtUp = adapter.Refused, &yes },
		`lag_bytes: is -1`: func(m *adapter.Member) { m.LagBytes = &below },
		`may_disrupt: is true, though liveness is "unknown"`:        func(m *adapter.Member) { m.Liveness = adapter.Unknown },
		`may_disrupt_reason: is empty, though may_disrupt is false`: func(m *adapter.Member) { m.MayDisrupt = false },
		`may_disrupt_reason: is set, though may_disrupt is true`:    func(m *adapter.Member) { m.MayDisruptReason = "no" },
		`member_ids["k-9"]: is neither a voter nor a learner`:       func(m *adapter.Member) { m.MemberIDs["k-9"] = "id9" },
		`member_ids["k-1"]: has the id of "k-0"`:                    func(m *adapter.Member) { m.MemberIDs["k-1"] = "id0" },
		`member_ids["k-1"]: is empty`:                               func(m *adapter.Member) { m.MemberIDs["k-1"] = "" },
		`busy[0]: is empty`:                                         func(m *adapter.Member) { m.Busy = []string{""} },
		`busy: has 101 entries, at most 100`:                        func(m *adapter.Member) { m.Busy = many() },
		`and 86 more faults`:                                        func(m *adapter.Member) { m.Voters, m.Learners = many(), many() },
		`message: holds a control character`:                        func(m *adapter.Member) { m.Message = "a\x1b[31mb" },
		`version: has 257 bytes, at most 256`:                       func(m *adapter.Member) { m.Version = strings.Repeat("v", 257) },
		`fault: has 513 bytes, at most 512`:                         func(m *adapter.Member) { m.Fault = strings.Repeat("v", 513) },
		`data_format: is not valid UTF-8`:                           func(m *adapter.Member) { m.DataFormat = "\xff" },
	} {
		m := leader()
		change(&m)
		err := m.CheckOf("k-0", true)
		if want := strings.TrimSpace(says); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v\nwant %q", err, want)
		}
		if again := m.CheckOf("k-0", true); fmt.Sprint(err) != fmt.Sprint(again) {
			t.Errorf("the order of the faults changes:\n%v\n%v", err, again)
		}
	}
	if err := leader().CheckOf("k-0", false); err == nil || !strings.Contains(err.Error(), "set voters = true") {
		t.Errorf("voters of a workload that does not vote: %v", err)
	}
	all := adapter.Member{Role: "x", MayDisrupt: true, LagBytes: &below}.Check()
	if got := strings.Count(all.Error(), "\n") + 1; got != 5 {
		t.Errorf("%d faults, want all five at once:\n%v", got, all)
	}
}

func many() []string {
	out := make([]string, 0, 101)
	for i := range 101 {
		out = append(out, fmt.Sprintf("k-%d", i))
	}
	return out
}

func TestRequestsAreChecked(t *testing.T) {
	for says, r := range map[string]interface{ Check() error }{
		"":                             adapter.TransferRequest{ExpectedLeader: "k-0", Candidates: []string{"k-1"}},
		"expected_leader: is empty":    adapter.TransferRequest{Candidates: []string{"k-1"}},
		"candidates: is empty":         adapter.TransferRequest{ExpectedLeader: "k-0"},
		"candidates: has 101 entries":  adapter.TransferRequest{ExpectedLeader: "k-0", Candidates: many()},
		"do: \"kill\" is unknown":      adapter.SetRequest{Do: "kill", Slot: "k-1"},
		"slot: is empty":               adapter.SetRequest{Do: adapter.DoAdd},
		"leader: is empty":             adapter.Transferred{Moved: true},
		"leader: holds a control char": adapter.Transferred{Leader: "a\n"},
	} {
		if err := r.Check(); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", r, err, says)
		}
	}
}

// FuzzText: each text for people is taken as it is after Text.
func FuzzText(f *testing.F) {
	f.Add("a\x1b[31m\nb")
	f.Add(strings.Repeat("ä", adapter.MaxText))
	f.Fuzz(func(t *testing.T, text string) {
		m := adapter.Member{Role: adapter.RoleNone, Liveness: adapter.Alive, Ready: true, MayDisrupt: true, Message: adapter.Text(text)}
		if err := m.Check(); err != nil {
			t.Errorf("%q: %v", m.Message, err)
		}
	})
}
