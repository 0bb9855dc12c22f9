package driver

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestPatroniView(t *testing.T) {
	for name, tc := range map[string]struct {
		self     string
		settings map[string]string
		change   func(*fakePatroni)
		role     Role
		caughtUp *bool
		disrupt  bool
		says     string
	}{
		"leader":        {self: "db-0", role: RoleLeader, caughtUp: ptr(true), disrupt: true},
		"3.x leader":    {self: "db-0", change: func(f *fakePatroni) { f.status["db-0"]["role"] = "master" }, role: RoleLeader, caughtUp: ptr(true), disrupt: true},
		"replica":       {self: "db-1", role: RoleFollower, caughtUp: ptr(true), disrupt: true},
		"nofailover":    {self: "db-1", change: func(f *fakePatroni) { f.member("db-1")["tags"] = map[string]any{"nofailover": true} }, role: RoleLearner, caughtUp: ptr(true), disrupt: true},
		"other scope":   {self: "db-1", settings: map[string]string{"scope": "prod"}, role: RoleUnknown, says: `scope "demo"`},
		"other name":    {self: "db-1", change: func(f *fakePatroni) { f.status["db-1"]["patroni"] = map[string]any{"name": "pg1"} }, role: RoleUnknown, says: `named "pg1"`},
		"not streaming": {self: "db-1", change: func(f *fakePatroni) { f.status["db-0"]["replication"] = nil }, role: RoleFollower, caughtUp: ptr(false), disrupt: true, says: "does not list"},
		"dead timeline": {self: "db-1", change: func(f *fakePatroni) { f.status["db-1"]["timeline"] = 2 }, role: RoleFollower, caughtUp: ptr(false), disrupt: true, says: "timeline 2"},
		"far behind":    {self: "db-1", settings: map[string]string{"max_lag_bytes": "100"}, change: func(f *fakePatroni) { f.status["db-1"]["xlog"] = map[string]any{"replayed_location": 800} }, role: RoleFollower, caughtUp: ptr(false), disrupt: true, says: "200 bytes"},
		"replay paused": {self: "db-1", change: func(f *fakePatroni) {
			f.status["db-1"]["xlog"] = map[string]any{"replayed_location": 1000, "paused": true}
		}, role: RoleFollower, caughtUp: ptr(false), disrupt: true, says: "paused"},
		"leader hidden": {self: "db-1", change: func(f *fakePatroni) { delete(f.vips, "db-0") }, role: RoleFollower, disrupt: true, says: "catch-up is not known"},
		"starting":      {self: "db-1", change: func(f *fakePatroni) { f.status["db-1"]["state"] = "starting" }, role: RoleFollower, caughtUp: ptr(false), disrupt: true, says: "starting"},
		"no leader":     {self: "db-1", change: func(f *fakePatroni) { f.member("db-0")["role"] = "replica" }, role: RoleFollower, says: "no leader"},
		"lost the lock": {self: "db-0", change: func(f *fakePatroni) { f.member("db-0")["role"] = "replica" }, role: RoleUnknown, says: "without the leader lock"},
		"paused":        {self: "db-1", change: func(f *fakePatroni) { f.cluster["pause"] = true }, role: RoleFollower, caughtUp: ptr(true), says: "Patroni is paused"},
		"scheduled":     {self: "db-1", change: func(f *fakePatroni) { f.cluster["scheduled_switchover"] = map[string]any{"at": "x"} }, role: RoleFollower, caughtUp: ptr(true), says: "scheduled"},
		"backup": {self: "db-0", change: func(f *fakePatroni) {
			f.status["db-0"]["replication"] = []any{map[string]any{"application_name": "pg_basebackup", "state": "backup"}, map[string]any{"application_name": "db-1", "state": "streaming"}}
		}, role: RoleLeader, caughtUp: ptr(true), says: "base backup"},
		"a replica of a replica": {self: "db-1", change: func(f *fakePatroni) {
			f.member("db-1")["tags"] = map[string]any{"replicatefrom": "db-2"}
			f.status["db-0"]["replication"] = []any{map[string]any{"application_name": "db-2", "state": "streaming"}}
		}, role: RoleFollower, caughtUp: ptr(true), disrupt: true},
		"a replica of a replica that does not stream": {self: "db-1", change: func(f *fakePatroni) {
			f.member("db-1")["tags"] = map[string]any{"replicatefrom": "db-2"}
			f.status["db-0"]["replication"], f.status["db-1"]["replication_state"] = nil, "in archive recovery"
		}, role: RoleFollower, caughtUp: ptr(false), disrupt: true, says: "does not stream from db-2, which its tag replicatefrom names"},
		"a delayed replica": {self: "db-1", change: delayed, role: RoleFollower, caughtUp: ptr(false), disrupt: true, says: "recovery_min_apply_delay"},
		"a delayed replica with nofailover": {self: "db-1", change: func(f *fakePatroni) {
			delayed(f)
			f.member("db-1")["tags"] = map[string]any{"nofailover": true}
		}, role: RoleLearner, caughtUp: ptr(true), disrupt: true},
		"a standby cluster": {self: "db-1", change: func(f *fakePatroni) {
			f.member("db-0")["role"], f.status["db-0"]["role"] = "standby_leader", "standby_leader"
		}, role: RoleUnknown, says: "standby_cluster"},
		"synchronous mode, and no replica is synchronous": {self: "db-0", change: func(f *fakePatroni) {
			f.config = map[string]any{"synchronous_mode": true}
		}, role: RoleLeader, caughtUp: ptr(true), says: "db-1: no replica is a synchronous standby now"},
		"synchronous mode, and all others are nosync": {self: "db-0", change: func(f *fakePatroni) {
			f.config = map[string]any{"synchronous_mode": true}
			for _, name := range []string{"db-1", "db-2"} {
				f.member(name)["tags"] = map[string]any{"nosync": true}
			}
		}, role: RoleLeader, caughtUp: ptr(true), disrupt: true},
		"only nofailover": {self: "db-0", change: func(f *fakePatroni) {
			for _, name := range []string{"db-1", "db-2"} {
				f.member(name)["tags"] = map[string]any{"nofailover": true}
			}
		}, role: RoleLeader, caughtUp: ptr(true), disrupt: true},
		"no replica follows": {self: "db-0", change: func(f *fakePatroni) { f.status["db-0"]["replication"] = nil }, role: RoleLeader, caughtUp: ptr(true), says: "no streaming replica"},
		"sync not in use": {self: "db-0", change: func(f *fakePatroni) {
			f.member("db-1")["role"] = "sync_standby"
			f.status["db-0"]["replication"] = []any{map[string]any{"application_name": "db-2", "state": "streaming"}}
		}, role: RoleLeader, caughtUp: ptr(true), says: "no streaming replica"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakePatroni(t)
			d := f.driver(t, tc.self, tc.settings)
			if tc.change != nil {
				tc.change(f)
			}
			v, err := d.Observe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if v.Role != tc.role || !equalPtr(v.CaughtUp, tc.caughtUp) || v.MayDisrupt != tc.disrupt || v.Liveness != LivenessAlive {
				t.Errorf("view = %+v, want role %s, caught up %v, may disrupt %t", v, tc.role, tc.caughtUp, tc.disrupt)
			}
			if !strings.Contains(v.Message+v.MayDisruptReason, tc.says) {
				t.Errorf("message %q, reason %q; want %q in one", v.Message, v.MayDisruptReason, tc.says)
			}
		})
	}
}

// delayed: db-1 has received all data and replays with a delay of 64 MiB.
func delayed(f *fakePatroni) {
	f.status["db-1"]["xlog"] = map[string]any{"received_location": 1000, "replayed_location": 1000 - 64<<20}
}

// TestAStartThatFailsIsSaidUntilPostgreSQLRuns: Patroni shows "start failed" and "starting" in turn, and reports no state
// while it waits for PostgreSQL.
func TestAStartThatFailsIsSaidUntilPostgreSQLRuns(t *testing.T) {
	f := newFakePatroni(t)
	f.status["db-0"]["server_version"] = 150020
	d := f.driver(t, "db-1", nil)
	const silent = "silent"
	for i, one := range []struct {
		state, says string
	}{
		{"starting", "PostgreSQL is starting"}, {"start failed", "does not start (start failed)"}, {"starting", "own major version only, here 15"},
		{silent, "does not start (start failed)"}, {silent, "own major version only, here 15"},
		{"running", ""}, {"starting", "PostgreSQL is starting"}, {"restart failed", "does not start (restart failed)"}, {"creating replica", "PostgreSQL is creating replica"},
	} {
		f.mu.Lock()
		f.silent = map[string]bool{"db-1 /patroni": one.state == silent}
		if one.state != silent {
			f.status["db-1"]["state"] = one.state
		}
		f.mu.Unlock()
		v, err := d.Observe(t.Context())
		if err != nil || v.Liveness != LivenessAlive || v.Ready != (one.says == "") || !strings.Contains(v.Message, one.says) {
			t.Errorf("%d: %s: %+v, %v; want %q", i, one.state, v, err, one.says)
		}
	}
}

// TestPatroniDrainSettles: a PostgreSQL that Patroni gave up on is settled; a PostgreSQL that
// Patroni works on is not.
func TestPatroniDrainSettles(t *testing.T) {
	for state, settled := range map[string]bool{
		"running": true, "start failed": true, "restart failed": true, "initdb failed": true, "custom bootstrap failed": true, "crashed": true,
		"starting": false, "stopping": false, "creating replica": false,
	} {
		f := newFakePatroni(t)
		f.status["db-1"]["state"] = state
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := f.driver(t, "db-1", nil).Drain(ctx)
		cancel()
		if (err == nil) != settled {
			t.Errorf("%s: %v, want settled %t", state, err, settled)
		}
	}
}

// TestADrainEndsWhereOnlyTheUpdateHelps: the update may bring the settings that end a refusal, or
// that a start needs. A late answer, or a report of other work, still delays the end of the drain.
func TestADrainEndsWhereOnlyTheUpdateHelps(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*fakePatroni)
		settled bool
	}{
		"access refused":         {change: func(f *fakePatroni) { f.denies = 403 }, settled: true},
		"copies again and again": {change: func(f *fakePatroni) { f.status["db-1"]["state"] = "creating replica" }, settled: true},
		"starts and starts":      {change: func(f *fakePatroni) { f.status["db-1"]["state"] = "starting" }, settled: true},
		"no answer":              {change: func(f *fakePatroni) { f.silent = map[string]bool{"db-1": true} }, settled: true},
		"rewinds":                {change: func(f *fakePatroni) { f.status["db-1"]["state"] = "stopped" }},
	} {
		f := newFakePatroni(t)
		tc.change(f)
		d := f.driver(t, "db-1", nil)
		d.settles = 1500 * time.Millisecond // longer than one answer is waited for
		if err := d.Drain(t.Context()); (err == nil) != tc.settled {
			t.Errorf("%s: %v, want settled %t", name, err, tc.settled)
		}
		f.mu.Lock()
		f.silent = nil
		f.mu.Unlock()
	}
}

// TestAParameterThatWaitsForARestartIsAFault: the member is well all the same.
func TestAParameterThatWaitsForARestartIsAFault(t *testing.T) {
	f := newFakePatroni(t)
	f.status["db-1"]["pending_restart"] = true
	f.status["db-1"]["pending_restart_reason"] = map[string]any{"max_connections": map[string]any{"old_value": "100", "new_value": "50"}}
	v, err := f.driver(t, "db-1", nil).Observe(t.Context())
	if want := "PostgreSQL has to start again for the new value of max_connections (pending_restart)"; err != nil || v.Fault != want || !v.Ready || !v.MayDisrupt {
		t.Errorf("view = %+v, %v; want the fault %q", v, err, want)
	}
}
