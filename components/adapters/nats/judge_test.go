package nats

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"cadre.dev/core/adapter"
)

func live(server, id string) peer {
	return peer{Name: server, ID: id, Current: true, Active: time.Second}
}

// healthy holds the answers that nats-0 gets as the meta leader of three servers, with a stream that nats-1 leads.
func healthy() seen {
	others := []peer{live("nats-1", "b"), live("nats-2_x", "c")}
	lead := jsz{Meta: &meta{Leader: "nats-0", Replicas: others, Size: 3}}
	one := func(server string, replicas ...peer) jsz {
		s := stream{Name: "s", Cluster: &raft{Leader: "nats-1", Replicas: replicas}}
		s.Config = &struct {
			Replicas int `json:"num_replicas"`
		}{3}
		answer := jsz{Accounts: []account{{Name: "A", Streams: []stream{s}}}}
		if server == "nats-0" {
			answer.Meta = lead.Meta
		}
		return answer
	}
	return seen{
		varz: varz{Name: "nats-0", Version: "2.15.2"}, health: healthz{Status: "ok"}, self: lead, id: "a", term: 4,
		servers: map[string]jsz{
			"nats-0":   one("nats-0", live("nats-1", "b"), peer{Name: "nats-2_x", ID: "c"}), // a follower knows little of others
			"nats-1":   one("nats-1", live("nats-0", "a"), live("nats-2_x", "c")),
			"nats-2_x": one("nats-2_x", live("nats-1", "b"), peer{Name: "nats-0", ID: "a"}),
		},
	}
}

// leaderless is the meta group without a leader: the list has the asking server too.
func leaderless(name, id string) *meta {
	return &meta{Size: 3, Replicas: []peer{{Name: name, ID: id}, {Name: "nats-1", ID: "b"}, {Name: "nats-2_x", ID: "c"}}}
}

// Without a leader the server is one voter of three, and no earlier disk of itself.
func TestVotersWithoutLeader(t *testing.T) {
	t.Parallel()
	s := healthy()
	s.self.Meta = leaderless("nats-0", "a")
	for _, s.id = range []string{"a", ""} {
		m := judge("nats-0", 1000, s)
		if got := strings.Join(m.Voters, " "); got != "nats-0 nats-1 nats-2" || m.MemberIDs["nats-0"] != "a" || m.Fault != "" || m.Leader != "" {
			t.Errorf("with the id %q: %+v", s.id, m)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	streamOf := func(s *seen, server string) *stream { return &s.servers[server].Accounts[0].Streams[0] }
	for what, c := range map[string]struct {
		change  func(*seen)
		ready   bool
		disrupt bool
		role    string
		says    string
	}{
		"well": {func(*seen) {}, true, true, adapter.RoleLeader, ""},
		"a replica elsewhere is far behind": {func(s *seen) { streamOf(s, "nats-1").Cluster.Replicas[1].Lag = 1001 }, true, false, adapter.RoleLeader,
			"stream A/s would have 1 of 3 current replicas; not current: nats-2_x (catches up)"},
		"a replica elsewhere is a little behind": {func(s *seen) { streamOf(s, "nats-1").Cluster.Replicas[1].Lag = 1000 }, true, true, adapter.RoleLeader, ""},
		"a dead replica still counts as current": {func(s *seen) { streamOf(s, "nats-1").Cluster.Replicas[1].Active = 5 * time.Second }, true, false, adapter.RoleLeader,
			"nats-2_x (does not answer)"},
		"a replica elsewhere joins":   {func(s *seen) { streamOf(s, "nats-1").Cluster.Replicas[1].Pending = true }, true, false, adapter.RoleLeader, "nats-2_x (joins)"},
		"the stream shrank to two":    {func(s *seen) { streamOf(s, "nats-1").Cluster.Replicas = []peer{live("nats-0", "a")} }, true, false, adapter.RoleLeader, "1 of 3"},
		"this replica is far behind":  {func(s *seen) { streamOf(s, "nats-1").Cluster.Replicas[0].Lag = 5000 }, true, true, adapter.RoleLeader, "stream A/s: nats-0 (catches up)"},
		"the stream's leader is away": {func(s *seen) { delete(s.servers, "nats-1") }, true, false, adapter.RoleLeader, "no server says that it leads stream A/s"},
		"this server's own answer is away": {func(s *seen) {
			delete(s.servers, "nats-0")
			s.servers["nats-2_x"].Accounts[0].Streams[0].Cluster.Leader = "nats-0"
		}, false, false, adapter.RoleUnknown, "this server gave no answer to the system account"},
		"a peer of the meta group is away": {func(s *seen) { s.servers["nats-0"].Meta.Replicas[0].Active = time.Minute }, true, false, adapter.RoleLeader, "the meta group would have 1 of 3"},
		"healthz complains":                {func(s *seen) { s.health = healthz{"unavailable", "group node unhealthy"} }, true, true, adapter.RoleLeader, "healthz: group node unhealthy"},
		"this server does not know its replica": {func(s *seen) {
			s.servers["nats-0"] = jsz{Meta: s.servers["nats-0"].Meta}
			streamOf(s, "nats-1").Cluster.Replicas[0].Active = 0
		}, true, true, adapter.RoleLeader, "stream A/s: nats-0 (does not answer)"},
		"no meta leader": {func(s *seen) { s.self.Meta = leaderless("nats-0", "a") }, false, false, adapter.RoleUnknown, "no meta leader"},
		"no meta leader, and the own name is not known": {func(s *seen) { s.self.Meta = leaderless("not known (peerID: a)", "a") },
			false, false, adapter.RoleUnknown, "no meta leader"},
		"no meta leader, and another server in the list": {func(s *seen) { s.self.Meta = leaderless("nats-3", "d") },
			false, true, adapter.RoleUnknown, "does not list this server"},
		"removed":      {func(s *seen) { s.self.Meta.Size = 2 }, false, true, adapter.RoleUnknown, "does not list this server"},
		"another name": {func(s *seen) { s.varz.Name = "nats-1" }, false, true, adapter.RoleUnknown, `named "nats-1"; its name must be nats-0`},
		"no login":     {func(s *seen) { s.serversErr = fmt.Errorf("log in as sys: %w", syscall.EACCES) }, false, false, adapter.RoleUnknown, "log in as sys"},
		"no cluster":   {func(s *seen) { s.self.Meta = nil }, false, true, adapter.RoleUnknown, "needs a cluster block"},
		"disabled":     {func(s *seen) { s.self.Disabled = true }, false, true, adapter.RoleUnknown, "disabled"},
		"refused":      {func(s *seen) { s.varzErr = syscall.ECONNREFUSED }, false, false, adapter.RoleUnknown, "no process listens"},
		"silent":       {func(s *seen) { s.varzErr = context.DeadlineExceeded }, false, false, adapter.RoleUnknown, "no answer within"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := healthy()
			c.change(&s)
			m := judge("nats-0", 1000, s)
			if err := m.CheckOf("nats-0", true); err != nil {
				t.Error(err)
			}
			says := m.MayDisruptReason + " " + m.Message + " " + m.Fault
			if m.Ready != c.ready || m.MayDisrupt != c.disrupt || m.Role != c.role || !strings.Contains(says, c.says) || m.MayDisrupt == (m.MayDisruptReason != "") {
				t.Errorf("%+v", m)
			}
		})
	}
}

// A member has caught up if every leader says so. It is behind if one leader does, and otherwise nothing is known.
func TestCaughtUp(t *testing.T) {
	t.Parallel()
	streamOf := func(s *seen, server string) *stream { return &s.servers[server].Accounts[0].Streams[0] }
	// follow makes nats-1 the meta leader.
	follow := func(s *seen) {
		others := []peer{live("nats-1", "b"), live("nats-2_x", "c")}
		s.self.Meta = &meta{Leader: "nats-1", Replicas: others, Size: 3}
		lead := s.servers["nats-1"]
		lead.Meta = &meta{Leader: "nats-1", Replicas: []peer{live("nats-0", "a"), live("nats-2_x", "c")}, Size: 3}
		s.servers["nats-1"] = lead
	}
	for what, c := range map[string]struct {
		change func(*seen)
		want   string
		says   string
	}{
		"leader":   {func(*seen) {}, "true", ""},
		"follower": {follow, "true", ""},
		"behind":   {func(s *seen) { streamOf(s, "nats-1").Cluster.Replicas[0].Pending = true }, "false", "stream A/s: nats-0 (joins)"},
		"the stream's leader is away": {func(s *seen) { delete(s.servers, "nats-1") }, "not known",
			"not known: no server says that it leads stream A/s"},
		"a stream with two replicas has no leader": {func(s *seen) {
			for _, server := range []string{"nats-0", "nats-1", "nats-2_x"} {
				streamOf(s, server).Config.Replicas, streamOf(s, server).Cluster.Leader = 2, ""
			}
		}, "not known", "not known: no server says that it leads stream A/s"},
		"the stream's leader does not know this server": {func(s *seen) { streamOf(s, "nats-1").Cluster.Replicas[0].Name = "not known (peerID: a)" }, "not known",
			"the leader of stream A/s does not list this server"},
		"the meta leader does not lead by its own word": {func(s *seen) { follow(s); s.servers["nats-1"].Meta.Leader = "" }, "not known",
			"no server says that it leads the meta group"},
		"behind in the meta group": {func(s *seen) { follow(s); s.servers["nats-1"].Meta.Replicas[0].Lag = 1001 }, "false",
			"the meta group: nats-0 (catches up)"},
		"behind in the stream, and no meta leader": {func(s *seen) {
			follow(s)
			s.servers["nats-1"].Meta.Leader = ""
			streamOf(s, "nats-1").Cluster.Replicas[0].Lag = 1001
		}, "false", "stream A/s: nats-0 (catches up)"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := healthy()
			c.change(&s)
			m := judge("nats-0", 1000, s)
			if err := m.CheckOf("nats-0", true); err != nil {
				t.Error(err)
			}
			got := "not known"
			if m.CaughtUp != nil {
				got = fmt.Sprint(*m.CaughtUp)
			}
			if got != c.want || !strings.Contains(m.Message, c.says) || (m.Message == "") != (c.says == "") || !m.Ready {
				t.Errorf("%s: %+v", got, m)
			}
		})
	}
}

// Two disks of one slot are two members: the living is the member, and the other is a fault.
func TestTwoServersOfOneSlot(t *testing.T) {
	t.Parallel()
	s := healthy()
	s.self.Meta.Size = 4
	s.self.Meta.Replicas = []peer{{Name: "nats-1_old", ID: "o", Active: time.Minute}, live("nats-1_new", "b"), live("nats-2", "c")}
	m := judge("nats-0", 1000, s)
	if got := strings.Join(m.Voters, " "); got != "nats-0 nats-1 nats-2" || m.MemberIDs["nats-1"] != "b" || !strings.Contains(m.Fault, "nats-1_old") {
		t.Errorf("%+v", m)
	}
	for _, c := range []struct{ slot, member, id, says string }{
		{"nats-1", "o", "o", ""},
		{"nats-1", "b", "", "still answers"},
		{"nats-1", "", "", "name one as member"},
		{"nats-2", "o", "", "is the server nats-1_old, not nats-2"},
		{"nats-7", "", "", ""},
		{"nats-1", "gone", "", ""},
		{"nats-0", "", "", "leadership moves first"},
	} {
		id, err := victimOf(adapter.SetRequest{Do: "remove", Slot: c.slot, Member: c.member}, *s.self.Meta)
		if id != c.id || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("remove %s %q: %q, %v, want %q, %q", c.slot, c.member, id, err, c.id, c.says)
		}
	}
}

// A peer that NATS knows by its id alone has the slot of the name behind the id.
func TestNamesBehindIDs(t *testing.T) {
	t.Parallel()
	n := newNames("nats-0")
	for id, want := range map[string]string{"S1Nunr6R": "nats-0", "yrzKKRBu": "nats-1", "cnrtt3eg": "nats-2", idOf("nats-2_0fe"): "nats-2_0fe", "aaaaaaaa": ""} {
		if got := n.of(id); got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
}
