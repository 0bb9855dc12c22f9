package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func listenOn(at netip.Addr, port uint16) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(context.Background(), "tcp", netip.AddrPortFrom(at, port).String())
}

func TestConsulJudgement(t *testing.T) {
	type world struct {
		me   consulSelf
		raft consulRaft
		auto consulHealth
	}
	healthy := func() world {
		var w world
		w.me.Stats.Raft.State, w.me.Stats.Raft.Applied = "Follower", "900"
		w.auto.FailureTolerance = 1
		for i, name := range []string{"c-0", "c-1", "c-2"} {
			w.raft.Servers = append(w.raft.Servers, struct {
				ID     string
				Node   string
				Leader bool
				Voter  bool
			}{name, name, i == 0, true})
			w.auto.Servers = append(w.auto.Servers, consulServer{Name: name, Healthy: true, Voter: true, LastIndex: 1000})
		}
		return w
	}
	for name, tc := range map[string]struct {
		self     string
		change   func(*world)
		role     Role
		caughtUp *bool
		disrupt  bool
		says     string
	}{
		"follower":                  {self: "c-1", role: RoleFollower, caughtUp: ptr(true), disrupt: true},
		"leader":                    {self: "c-0", change: func(w *world) { w.me.Stats.Raft.State = "Leader" }, role: RoleLeader, caughtUp: ptr(true), disrupt: true},
		"deposed but does not know": {self: "c-1", change: func(w *world) { w.me.Stats.Raft.State = "Leader" }, role: RoleFollower, caughtUp: ptr(true), disrupt: true},
		"behind":                    {self: "c-1", change: func(w *world) { w.me.Stats.Raft.Applied = "100" }, role: RoleFollower, caughtUp: ptr(false), disrupt: true, says: "applied 100"},
		"not a voter yet":           {self: "c-1", change: func(w *world) { w.raft.Servers[1].Voter, w.auto.Servers[1].Voter = false, false }, role: RoleLearner, caughtUp: ptr(false), says: "not a voter yet"},
		"another joins":             {self: "c-1", change: func(w *world) { w.auto.Servers[2].Voter = false }, role: RoleFollower, caughtUp: ptr(true), says: "c-2 is not a voter yet"},
		"no tolerance left":         {self: "c-1", change: func(w *world) { w.auto.FailureTolerance = 0 }, role: RoleFollower, caughtUp: ptr(true), says: "tolerance"},
		"no leader":                 {self: "c-1", change: func(w *world) { w.raft.Servers[0].Leader = false }, role: RoleFollower, says: "no leader"},
		"unknown to autopilot":      {self: "c-1", change: func(w *world) { w.auto.Servers = w.auto.Servers[:1] }, role: RoleFollower, disrupt: true, says: "does not know"},
	} {
		t.Run(name, func(t *testing.T) {
			w := healthy()
			if tc.change != nil {
				tc.change(&w)
			}
			v := View{Role: RoleUnknown}
			judgeConsul(&v, tc.self, w.me, w.raft, w.auto)
			if v.Role != tc.role || !equalPtr(v.CaughtUp, tc.caughtUp) || v.MayDisrupt != tc.disrupt {
				t.Errorf("view = %+v, want role %s, caught up %v, may disrupt %t", v, tc.role, tc.caughtUp, tc.disrupt)
			}
			if !strings.Contains(v.Message+v.MayDisruptReason, tc.says) {
				t.Errorf("message %q, reason %q; want %q in one", v.Message, v.MayDisruptReason, tc.says)
			}
		})
	}
}

// TestTheLeaderReportsItsFollowers: only the leader reports followers, and only those in contact
// with it.
func TestTheLeaderReportsItsFollowers(t *testing.T) {
	for self, want := range map[string]string{"c-0": "c-1", "c-1": ""} {
		var me consulSelf
		me.Stats.Raft.State, me.Stats.Raft.Applied = map[string]string{"c-0": "Leader", "c-1": "Follower"}[self], "900"
		var raft consulRaft
		var auto consulHealth
		for i, name := range []string{"c-0", "c-1", "c-2"} {
			raft.Servers = append(raft.Servers, struct {
				ID     string
				Node   string
				Leader bool
				Voter  bool
			}{name, name, i == 0, true})
			auto.Servers = append(auto.Servers, consulServer{Name: name, Healthy: i < 2, Voter: true, LastIndex: 1000})
		}
		v := View{Role: RoleUnknown}
		judgeConsul(&v, self, me, raft, auto)
		if got := strings.Join(v.Followers, " "); got != want {
			t.Errorf("%s of Consul sees %q follow, want %q", self, got, want)
		}
	}
	for self, want := range map[string]string{"db-0": "db-1", "db-1": ""} {
		f := newFakePatroni(t)
		f.status["db-0"]["replication"] = []any{
			map[string]any{"application_name": "db-1", "state": "streaming"},
			map[string]any{"application_name": "db-2", "state": "catchup"},
			map[string]any{"application_name": "a_backup", "state": "streaming"},
		}
		v, err := f.driver(t, self, nil).Observe(t.Context())
		if got := strings.Join(v.Followers, " "); err != nil || got != want {
			t.Errorf("%s of Patroni sees %q follow, want %q; %v", self, got, want, err)
		}
	}
}

func TestEtcdJudgement(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*clientv3.StatusResponse, []*pb.Member)
		readErr error
		role    Role
		caught  *bool
		ready   bool // also without catch-up
		disrupt bool
		voters  int
		says    string
	}{
		"follower": {role: RoleFollower, caught: ptr(true), disrupt: true, voters: 3},
		"leader":   {change: func(s *clientv3.StatusResponse, _ []*pb.Member) { s.Leader = 2 }, role: RoleLeader, caught: ptr(true), disrupt: true, voters: 3},
		"no leader": {change: func(s *clientv3.StatusResponse, _ []*pb.Member) { s.Leader = 0 }, readErr: errors.New("timed out"),
			role: RoleFollower, voters: 3, says: "no leader"},
		"learner": {change: func(s *clientv3.StatusResponse, m []*pb.Member) {
			s.IsLearner, m[1].IsLearner = true, true
		},
			role: RoleLearner, caught: ptr(false), voters: 2, says: "joins"},
		"a learner elsewhere": {change: func(_ *clientv3.StatusResponse, m []*pb.Member) { m[2].IsLearner = true },
			role: RoleFollower, caught: ptr(true), voters: 2, says: "joins"},
		"a voter without a name serves": {change: func(_ *clientv3.StatusResponse, m []*pb.Member) { m[2].Name = "" },
			role: RoleFollower, caught: ptr(true), disrupt: true, voters: 3},
		"a leader without a name leads": {change: func(_ *clientv3.StatusResponse, m []*pb.Member) { m[0].Name = "" },
			role: RoleFollower, caught: ptr(true), disrupt: true, voters: 3},
		"this member without a name leads": {change: func(s *clientv3.StatusResponse, m []*pb.Member) { s.Leader, m[1].Name = 2, "" },
			role: RoleLeader, caught: ptr(true), disrupt: true, voters: 3},
		"quota reached": {change: func(s *clientv3.StatusResponse, _ []*pb.Member) { s.Errors = []string{"memberID:1 alarm:NOSPACE "} },
			role: RoleFollower, caught: ptr(true), disrupt: true, voters: 3, says: "etcdctl alarm disarm"},
		"corrupt": {change: func(s *clientv3.StatusResponse, _ []*pb.Member) {
			s.Errors = []string{"memberID:1 alarm:NOSPACE ", "memberID:3  alarm:CORRUPT"}
		}, role: RoleFollower, caught: ptr(true), voters: 3, says: "CORRUPT"},
		"no read in time":   {readErr: context.DeadlineExceeded, role: RoleFollower, ready: true, disrupt: true, voters: 3, says: "no answer within"},
		"a read is refused": {readErr: rpctypes.ErrPermissionDenied, role: RoleFollower, voters: 3, says: "the role root"},
		"other name": {change: func(_ *clientv3.StatusResponse, m []*pb.Member) { m[1].Name = "x" },
			role: RoleUnknown, voters: 3, says: `named "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			status := &clientv3.StatusResponse{Header: &pb.ResponseHeader{MemberId: 2}, Leader: 1, RaftTerm: 5}
			members := []*pb.Member{
				{ID: 1, Name: "e-0", PeerURLs: []string{"http://127.50.1.1:2380"}},
				{ID: 2, Name: "e-1", PeerURLs: []string{"http://127.50.1.2:2380"}},
				{ID: 3, Name: "e-2", PeerURLs: []string{"http://127.50.1.3:2380"}},
			}
			if tc.change != nil {
				tc.change(status, members)
			}
			e := &etcd{self: "e-1", slotAt: func(at netip.Addr) (string, bool) { return fmt.Sprintf("e-%d", at.As4()[3]-1), at.As4()[3] != 2 }}
			v := View{Role: RoleUnknown}
			e.judge(&v, status, members, tc.readErr)
			judgeEtcdErrors(&v, status.Errors)
			if ready := tc.ready || tc.caught != nil && *tc.caught; v.Role != tc.role || v.Ready != ready || !equalPtr(v.CaughtUp, tc.caught) || v.MayDisrupt != tc.disrupt || len(v.Voters) != tc.voters {
				t.Errorf("view = %+v, want role %s, caught up %v, may disrupt %t, %d voters", v, tc.role, tc.caught, tc.disrupt, tc.voters)
			}
			if said := v.Message + v.MayDisruptReason + v.Fault; !strings.Contains(said, tc.says) {
				t.Errorf("it says %q; want %q in that", said, tc.says)
			}
			if named := status.Leader != 0; named && v.Leader != fmt.Sprintf("e-%d", status.Leader-1) && v.Role != RoleUnknown {
				t.Errorf("leader %q", v.Leader)
			}
		})
	}
}

// TestAMemberThatHasNotStarted: the member has no name, so its address identifies its Slot. Without
// a known Slot the view lists the address, and the member is removed by its id.
func TestAMemberThatHasNotStarted(t *testing.T) {
	peers := map[string]string{"127.50.1.4": "e-3"}
	e := &etcd{self: "e-1", slotAt: func(at netip.Addr) (string, bool) {
		slot, ok := peers[at.String()]
		return slot, ok
	}}
	members := []*pb.Member{
		{ID: 1, Name: "e-0"}, {ID: 2, Name: "e-1"}, {ID: 3, Name: "e-2"},
		{ID: 0xa4, IsLearner: true, PeerURLs: []string{"http://127.50.1.4:2380"}},
	}
	for _, want := range []string{"e-3", "127.50.1.4"} {
		v := View{Role: RoleUnknown}
		e.judge(&v, &clientv3.StatusResponse{Header: &pb.ResponseHeader{MemberId: 2}, Leader: 1, RaftTerm: 5}, members, nil)
		if strings.Join(v.Learners, " ") != want || v.MemberIDs[want] != "a4" {
			t.Errorf("learners %v, known by %v; want %s", v.Learners, v.MemberIDs, want)
		}
		if m, err := e.incarnation(members, "e-3", "a4"); err != nil || m != members[3] {
			t.Errorf("%s: %v, %v", want, m, err)
		}
		_, err := e.incarnation(members, "e-4", "a4")
		if known := want == "e-3"; errors.Is(err, ErrUnsafe) != known {
			t.Errorf("%s in another one's name: %v", want, err)
		}
		clear(peers)
	}
	members[3].PeerURLs = []string{"http://e-3.local:2380"}
	if name := e.nameOf(members[3]); name != "a4" {
		t.Errorf("without an address it stands under %q", name)
	}
}
