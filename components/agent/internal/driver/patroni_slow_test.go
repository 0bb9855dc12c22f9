package driver

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestASlowAnswerMakesNoMemberLookDead: one missing answer leaves the evidence of the others, and
// forbids a stop meanwhile.
func TestASlowAnswerMakesNoMemberLookDead(t *testing.T) {
	follow := []string{"db-1", "db-2"}
	for name, tc := range map[string]struct {
		self      string
		silent    []string
		change    func(*fakePatroni)
		live      Liveness
		role      Role
		ready     bool
		leader    string
		followers []string
		says      string
	}{
		"the leader's state": {self: "db-0", silent: []string{"db-0 /patroni"}, live: LivenessAlive, role: RoleLeader, ready: true, leader: "db-0",
			says: "no answer within 900ms, though it answers other questions"},
		"a replica's state": {self: "db-1", silent: []string{"db-1 /patroni"}, role: RoleUnknown, leader: "db-0",
			says: "no answer within 900ms, though it answers other questions"},
		"the leader's state, and it is not ready": {self: "db-0", silent: []string{"db-0 /patroni", "db-0 /readiness"}, role: RoleUnknown, leader: "db-0",
			says: "no answer within 900ms, though it answers other questions"},
		"all but readiness": {self: "db-0", silent: []string{"db-0 /patroni", "db-0 /cluster"}, role: RoleUnknown,
			says: "no answer within 900ms, though it answers other questions"},
		"every answer": {self: "db-0", silent: []string{"db-0"}, role: RoleUnknown, says: "no answer within 900ms"},
		"the leader's store": {self: "db-0", silent: []string{"db-0 /cluster"}, live: LivenessAlive, role: RoleLeader, ready: true, leader: "db-0", followers: follow,
			says: "no cluster view: no answer within 600ms"},
		"a replica's store": {self: "db-1", silent: []string{"db-1 /cluster"}, live: LivenessAlive, role: RoleFollower, ready: true, leader: "db-0",
			says: "no cluster view"},
		"a replica's store, and the leader is another one": {self: "db-1", silent: []string{"db-1 /cluster"}, role: RoleUnknown,
			change: func(f *fakePatroni) { f.promote("db-2") }, says: "no cluster view"},
		"the store of a leader on a new timeline": {self: "db-0", silent: []string{"db-0 /cluster"}, role: RoleUnknown,
			change: func(f *fakePatroni) { f.status["db-0"]["timeline"] = 5 }, says: "no cluster view"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakePatroni(t)
			d := f.driver(t, tc.self, nil)
			if v, err := d.Observe(t.Context()); err != nil || !v.MayDisrupt {
				t.Fatalf("before: %+v, %v", v, err)
			}
			d.see(seenCluster{}) // the cached view has expired
			f.mu.Lock()
			f.silent = map[string]bool{}
			for _, what := range tc.silent {
				f.silent[what] = true
			}
			if tc.change != nil {
				tc.change(f)
			}
			f.mu.Unlock()
			v, err := d.Observe(t.Context())
			if err != nil || v.Liveness != tc.live || v.Role != tc.role || v.Ready != tc.ready || v.Leader != tc.leader || !slices.Equal(v.Followers, tc.followers) {
				t.Errorf("view = %+v, %v", v, err)
			}
			if v.MayDisrupt || !strings.Contains(v.MayDisruptReason, tc.says) {
				t.Errorf("may disrupt %t: %q, want %q", v.MayDisrupt, v.MayDisruptReason, tc.says)
			}
		})
	}
}

// TestASlowMemberIsSeenWithinTheSteadyState: the cached cluster view replaces a fresh one, and a
// slow read of it costs the other requests no time.
func TestASlowMemberIsSeenWithinTheSteadyState(t *testing.T) {
	f := newFakePatroni(t)
	d := f.driver(t, "db-1", nil)
	if v, err := d.Observe(t.Context()); err != nil || !v.MayDisrupt {
		t.Fatalf("before: %+v, %v", v, err)
	}
	f.mu.Lock()
	f.silent = map[string]bool{"db-1 /patroni": true}
	f.mu.Unlock()
	if v, err := d.Observe(t.Context()); err != nil || v.Liveness != LivenessUnknown || v.Leader != "db-0" || v.MayDisrupt {
		t.Errorf("view = %+v, %v; want no answer, and db-0 named as leader", v, err)
	}
}

// TestARefusalNamesTheMissingSetting: a process that answers is alive.
func TestARefusalNamesTheMissingSetting(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		live   Liveness
		says   string
	}{
		"401":           {status: http.StatusUnauthorized, live: LivenessAlive, says: "username and password_file"},
		"403":           {status: http.StatusForbidden, live: LivenessAlive, says: "cert_file and key_file"},
		"another's 200": {status: http.StatusNoContent, live: LivenessAlive, says: "settings port"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakePatroni(t)
			f.denies = tc.status
			v, err := f.driver(t, "db-0", nil).Observe(t.Context())
			if err != nil || v.Liveness != tc.live || v.MayDisrupt || !strings.Contains(v.Message, tc.says) {
				t.Errorf("view = %+v, %v; want %q", v, err, tc.says)
			}
		})
	}
	f := newFakePatroni(t)
	f.vips["db-3"] = subnet(t, 9)(8)
	if v, err := f.driver(t, "db-3", nil).Observe(t.Context()); err != nil || v.Liveness != LivenessRefused || v.MayDisrupt {
		t.Errorf("where no process listens: %+v, %v", v, err)
	}
}
