package command

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/attest/attestsim"
	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// bench is a CLI with a coordinator behind it.
type bench struct {
	*clienttest.Server
	t       *testing.T
	context string
	// evidence of provenBench; nil: the coordinator does not prove itself.
	evidence *clienttest.Evidence
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return benchOf(t, clienttest.New(t))
}

// provenBench is newBench of a coordinator that proves itself.
func provenBench(t *testing.T) *bench {
	t.Helper()
	s := clienttest.New(t)
	evidence := s.ProveItself(t, attestsim.Faults{})
	b := benchOf(t, s)
	b.evidence = evidence
	c, err := client.LoadContext(b.context)
	if err != nil {
		t.Fatal(err)
	}
	c.Trust = evidence.Trust
	if err := c.Save(b.context); err != nil {
		t.Fatal(err)
	}
	return b
}

func benchOf(t *testing.T, s *clienttest.Server) *bench {
	t.Helper()
	c := s.Start(t)
	path := filepath.Join(t.TempDir(), "demo.json")
	if err := c.Save(path); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CADRE_CONTEXT", path)
	return &bench{Server: s, t: t, context: path}
}

// run carries out one command line; out is the text of both streams.
func (b *bench) run(args ...string) (code int, out string) {
	b.t.Helper()
	return run(b.t, args...)
}

func run(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	var buf bytes.Buffer
	app := &App{Out: &buf, Err: &buf, Now: func() time.Time { return noon }, Version: "test", Dial: client.Options{CallTimeout: 5 * time.Second}}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	code = app.Run(ctx, args)
	return code, buf.String()
}

const workerFile = `group "worker" {
  platform = "phala"
  replicas = 3
  template {
    compose = <<-EOT
      services:
        app:
          image: app@sha256:%s
    EOT
    instance_type = "tdx.small"
    os_image      = "dstack-0.5.9"
  }
  update_policy {
    min_ready_seconds = %s
  }
}
`

func (b *bench) file(digit, minReady string) string {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "worker.hcl")
	text := strings.Replace(strings.Replace(workerFile, "%s", strings.Repeat(digit, 64), 1), "%s", minReady, 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

func at(d time.Duration) *time.Time { v := noon.Add(-d); return &v }

// midRollout is a group in the middle of things.
func midRollout(g *clienttest.Group) {
	lag := int64(3 << 20)
	const old, target = "a1b2c3d4e5f60718293a4b5c6d7e8f90", "ffeeddccbbaa99887766554433221100"
	g.Spec = group.Spec{Name: "worker", Replicas: 3, Workload: group.Workload{Kind: "patroni"}}
	g.Index = 41
	g.Status = group.Status{
		Group: "worker", ObservedIndex: 41, Generation: 4, Target: target, Stable: old, Rollout: "worker-4", RolloutState: "RUNNING",
		Message: "waits for worker-1: booting, 38s", Replicas: 3, Available: 2, Updated: 1, Unavailable: 1,
		Conditions: []group.Condition{{Type: "Progressing", Status: true, Reason: "OperationOpen", Message: "worker-1 is BOOTING", Since: *at(38 * time.Second)}},
		Instances: []group.InstanceStatus{
			{Group: "worker", Slot: "worker-0", State: "Available", Health: "healthy", Role: "leader", Assigned: old, Observed: old, Since: at(26 * time.Hour), PlatformStatus: "running", Node: "7", NodeName: "prod7", Region: "eu-west"},
			{Group: "worker", Slot: "worker-1", Ordinal: 1, State: "Booting", Health: "unknown", Role: "unknown", Assigned: target, Observed: old, Phase: "BOOTING",
				Since: at(38 * time.Second), Reason: "the platform accepted the update", PlatformStatus: "updating", LastRefusal: "REVISION_NOT_ALLOWED: compose hash 00ab is not allowed", Operation: "op-7"},
			{Group: "worker", Slot: "worker-2", Ordinal: 2, State: "Available", Health: "healthy", Role: "follower", LagBytes: &lag, Assigned: target, Observed: target, Since: at(3*time.Minute + 4*time.Second), PlatformStatus: "running", Node: "host-b"},
		},
	}
	g.Plan = rollout.Plan{
		Group: "worker", Target: target, Stable: old, Generation: 4, Message: g.Status.Message, Warnings: []string{"voter_cap: voters are updated 1 at a time (R17)"},
		Rollout: &operation.Rollout{ID: "worker-4", State: operation.Running, StartedAt: noon.Add(-4 * time.Minute), Transfers: 0, Steps: 2,
			By: clienttest.AppliedBy, Request: "apply-77aa5c1b8d2e4f60718293a4b5c6d7e8", RetriedBy: "bob", RetryRequest: "ticket-9"},
		Actions: []rollout.Action{
			{Slot: "worker-1", Ordinal: 1, Kind: operation.Update, From: old, To: target, Class: rollout.ClassFollower, Operation: "op-7", Phase: operation.Booting},
			{Slot: "worker-0", Kind: operation.Update, From: old, To: target, Class: rollout.ClassLeader, Transfer: &operation.Transfer{ExpectedLeader: "worker-0", Candidates: []string{"worker-2"}},
				Before: operation.Before{Quorum: "3 voters, quorum 2, 2 healthy"}, Holds: []rollout.Hold{{Predicate: "max_unavailable", Message: "1 of 1 in use by worker-1"}, {Predicate: "min_ready", Message: "worker-2", Until: noon.Add(12 * time.Second)}}},
		},
	}
	g.AppliedBy, g.AppliedRequest = clienttest.AppliedBy, "apply-77aa5c1b8d2e4f60718293a4b5c6d7e8"
	g.Rollouts = []operation.Rollout{
		{ID: "worker-4", Group: "worker", From: old, To: target, State: operation.Running, Steps: 2, StartedAt: noon.Add(-4 * time.Minute),
			By: clienttest.AppliedBy, Request: "apply-77aa5c1b8d2e4f60718293a4b5c6d7e8", RetriedBy: "bob", RetryRequest: "ticket-9"},
		{ID: "worker-3", Group: "worker", To: old, State: operation.FailedState, Reason: "worker-0 was not available within 10m", Steps: 3, Transfers: 1, StartedAt: noon.Add(-26 * time.Hour), EndedAt: noon.Add(-25 * time.Hour)},
		{ID: "worker-2", Group: "worker", To: old, State: operation.SupersededState, StartedAt: noon.Add(-27 * time.Hour), EndedAt: noon.Add(-26 * time.Hour), By: "unknown (written to Consul KV)"},
	}
	g.Operations = []operation.Operation{{ID: "0123456789ab", Slot: "worker-1", Kind: operation.Update, Phase: operation.Booting, From: old, To: target, Call: operation.Call{Number: 1},
		Times: operation.Times{Created: noon.Add(-50 * time.Second)}, Outage: operation.Outage{From: noon.Add(-38 * time.Second)}, Reason: "the platform accepted the update"}}
	g.Admissions = [][]byte{
		[]byte(`{"slot":"worker-1","boot_id":"beef00112233","instance_id":"cafe00112233","code":"REVISION_NOT_ALLOWED","message":"compose hash 00ab is not allowed","at":"2026-05-04T11:59:30Z","by":"coordinator-1"}`),
		[]byte(`{"slot":"worker-1","boot_id":"feed00112233","instance_id":"cafe00112233","revision":"a1b2c3d4e5f60718293a4b5c6d7e8f90","admitted_at":"2026-05-03T10:00:00Z","by":"coordinator-0"}`),
	}
}

// Every picture that a person may meet at night.
func TestPictures(t *testing.T) {
	b := provenBench(t)
	b.Set("worker", midRollout)
	for name, args := range map[string][]string{
		"group_list":        {"group", "list"},
		"group_describe":    {"group", "describe", "worker"},
		"rollout_plan":      {"rollout", "plan", "worker"},
		"rollout_status":    {"rollout", "status", "worker"},
		"rollout_history":   {"rollout", "history", "worker"},
		"instance_list":     {"instance", "list"},
		"instance_wide":     {"instance", "list", "-o", "wide"},
		"instance_describe": {"instance", "describe", "worker-1"},
		"cluster_status":    {"cluster", "status"},
		"version":           {"version"},
		"help":              {"--help"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := b.run(args...)
			if code != ExitOK {
				t.Errorf("exit %d", code)
			}
			golden(t, name, out)
		})
	}
	if code, out := b.run("group", "describe", "worker", "-o", "json"); code != 0 || !strings.Contains(out, `"rollout_state": "RUNNING"`) {
		t.Errorf("json: %d %s", code, out)
	}
}

// testdata is absolute, for tests that change the working folder.
var testdata, _ = filepath.Abs("testdata")

// madeRequest are the ids of requests that end otherwise with each run.
var madeRequest = regexp.MustCompile(`\b(apply|undo|clone)-[0-9a-f]{32}\b`)

// shortRequest is a made request in a table.
var shortRequest = regexp.MustCompile(`\b(apply|undo|clone)-[0-9a-f]{8} ( *)`)

func golden(t *testing.T, name, got string) {
	t.Helper()
	got = madeRequest.ReplaceAllString(got, "$1-0f3a5c1b8d2e4f60718293a4b5c6d7e8")
	got = shortRequest.ReplaceAllString(got, "$1-0f3a5c1b $2")
	path := filepath.Join(testdata, name+".txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\n--- got\n%s--- want\n%s", path, got, want)
	}
}

func TestExitCodes(t *testing.T) {
	b := newBench(t)
	b.Set("worker", midRollout)
	b.Fail("SetOverride", status.Error(codes.PermissionDenied, "Permission denied"))
	b.Fail("ClearOverride", status.Error(codes.Internal, "it broke"))
	bad := filepath.Join(t.TempDir(), "bad.hcl")
	if err := os.WriteFile(bad, []byte("group \"x\" {\n replicaz = 1\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want int
		args []string
		says string
	}{
		{ExitUsage, []string{"grup"}, "not a command"},
		{ExitUsage, []string{"group", "frob"}, "not a command of `cadre group`"},
		{ExitUsage, []string{"group", "describe"}, "cadre group describe --help"},
		{ExitUsage, []string{"group", "list", "--nope"}, "unknown flag"},
		{ExitUsage, []string{"group", "list", "-o", "yaml"}, "json"},
		{ExitUsage, []string{"cluster", "delete"}, "--confirm demo"},
		{ExitUsage, []string{"local", "fault", "api"}, "--match"},
		{ExitNotFound, []string{"group", "describe", "missing"}, "no such group"},
		{ExitNotFound, []string{"instance", "describe", "missing-0"}, "no such slot"},
		{ExitNotFound, []string{"--context", "/nowhere.json", "group", "list"}, "cadre cluster create"},
		{ExitNotFound, []string{"local", "status", "--state", t.TempDir()}, "cadre local up"},
		{ExitRefused, []string{"rollout", "pause", "worker"}, "Permission denied"},
		{ExitError, []string{"rollout", "resume", "worker"}, "it broke"},
		{ExitRefused, []string{"group", "validate", bad}, "bad.hcl:2: Unknown argument"},
		{ExitTimeout, []string{"rollout", "watch", "worker", "--timeout", "1s"}, "the rollout continues"},
	} {
		if code, out := b.run(c.args...); code != c.want || !strings.Contains(out, c.says) {
			t.Errorf("%v: exit %d, want %d and %q:\n%s", c.args, code, c.want, c.says, out)
		}
	}
}

// lead acts as a leader that finishes each rollout at once, or with a state.
func lead(state operation.RolloutState, reason string) func(*clienttest.Group) {
	return func(g *clienttest.Group) {
		rev := g.Spec.Revision()
		g.Status = group.Status{Group: g.Spec.Name, ObservedIndex: g.Index, Target: rev, Replicas: 3, RolloutState: string(state), Message: reason}
		if state == operation.Complete {
			g.Status.Stable, g.Status.Available, g.Status.Updated = rev, 3, 3
		}
	}
}

func TestApply(t *testing.T) {
	b := newBench(t)
	b.OnApply = lead(operation.Complete, "")
	code, out := b.run("group", "apply", b.file("a", "30"), "--wait")
	if code != ExitOK {
		t.Errorf("first apply: exit %d", code)
	}
	golden(t, "apply_new", out)

	code, out = b.run("group", "apply", b.file("b", "10"), "--dry-run")
	if code != ExitOK || !strings.Contains(out, "nothing was written") {
		t.Errorf("dry run: exit %d", code)
	}
	golden(t, "apply_dry_run", out)

	code, out = b.run("group", "apply", b.file("a", "10"))
	if code != ExitOK || !strings.Contains(out, "revision stays 25a6e445\n") || !strings.Contains(out, "~ update_policy.min_ready_seconds (NONE): 30 -> 10") {
		t.Errorf("policy change: exit %d\n%s", code, out)
	}
	if code, out = b.run("group", "apply", b.file("a", "10"), "--wait"); code != ExitOK || !strings.Contains(out, "is unchanged") {
		t.Errorf("no change: exit %d\n%s", code, out)
	}

	b.OnApply = lead(operation.FailedState, "worker-1 was not available within 10m")
	code, out = b.run("group", "apply", b.file("b", "10"), "--wait")
	if code != ExitRollout || !strings.Contains(out, "worker-1 was not available within 10m") || !strings.Contains(out, "cadre rollout status worker") {
		t.Errorf("failed rollout: exit %d\n%s", code, out)
	}
	b.OnApply = lead(operation.Running, "")
	if code, out = b.run("group", "apply", b.file("c", "10"), "--wait", "--timeout", "100ms"); code != ExitTimeout || !strings.Contains(out, "the rollout continues") {
		t.Errorf("timeout: exit %d\n%s", code, out)
	}
	b.Fail("ApplyGroup", status.Error(codes.Aborted, "SPEC_CONFLICT: somebody changed the spec"))
	if code, out = b.run("group", "apply", b.file("d", "10")); code != ExitRefused || !strings.Contains(out, "SPEC_CONFLICT") {
		t.Errorf("conflict: exit %d\n%s", code, out)
	}
}

// An apply of a new group does not overwrite a group that another client created meanwhile.
func TestApplyOfANewGroupFindsOneThatWasMadeMeanwhile(t *testing.T) {
	b := newBench(t)
	b.Set("worker", midRollout)
	b.Fail("GetGroup", status.Error(codes.NotFound, "no such group: worker"))
	if code, out := b.run("group", "apply", b.file("a", "30")); code != ExitRefused || !strings.Contains(out, "GROUP_EXISTS") {
		t.Errorf("exit %d\n%s", code, out)
	}
	b.Set("worker", func(g *clienttest.Group) {
		if g.Index != 41 {
			t.Errorf("the spec was written, index %d", g.Index)
		}
	})
}

// The apply waits for the coordinators' name of the revision: the name by a program of another
// version never comes.
func TestApplyWaitsForTheCoordinatorsRevision(t *testing.T) {
	const theirs = "0123456789abcdef0123456789abcdef"
	s := clienttest.New(t)
	s.RevisionOf = func(group.Spec) string { return theirs }
	s.OnApply = func(g *clienttest.Group) {
		lead(operation.Complete, "")(g)
		g.Status.Target, g.Status.Stable = theirs, theirs
	}
	b := benchOf(t, s)
	for _, what := range []string{"a new group", "an unchanged one"} {
		if code, out := b.run("group", "apply", b.file("a", "30"), "--wait", "--timeout", "5s"); code != ExitOK || !strings.Contains(out, "runs revision 01234567") {
			t.Errorf("%s: exit %d\n%s", what, code, out)
		}
	}
}

func TestValidationNamesFieldAndLine(t *testing.T) {
	b := newBench(t)
	code, out := b.run("group", "apply", b.file("Z", "99999"))
	if code != ExitRefused || !strings.Contains(out, "worker.hcl:14: group worker: update_policy.min_ready_seconds:") || !strings.Contains(out, "worker.hcl:5: group worker: template.compose") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

func TestWatchPrintsChanges(t *testing.T) {
	b := newBench(t)
	b.Set("worker", midRollout)
	done := make(chan struct{})
	var code int
	var out string
	go func() {
		defer close(done)
		code, out = b.run("rollout", "watch", "worker")
	}()
	// The first picture is sent at once; wait for its call before the change.
	b.AwaitWatcher(t)
	b.Set("worker", func(g *clienttest.Group) {
		i := &g.Status.Instances[1]
		i.State, i.Health, i.Phase, i.Observed, i.LastRefusal, i.Reason, i.PlatformStatus, i.Role = "Available", "healthy", "", i.Assigned, "", "", "running", "follower"
		g.Status.RolloutState, g.Status.Updated, g.Status.Available, g.Status.Message = "FAILED", 2, 3, "worker-0 does not drain"
	})
	<-done
	if code != ExitRollout {
		t.Errorf("exit %d, want %d", code, ExitRollout)
	}
	golden(t, "rollout_watch", out)
}

func TestCompletion(t *testing.T) {
	b := newBench(t)
	b.Set("worker", midRollout)
	if code, out := b.run("__complete", "instance", "describe", ""); code != 0 || !strings.Contains(out, "worker-0\nworker-1\nworker-2\n") {
		t.Errorf("slots: %d %s", code, out)
	}
	if code, out := b.run("__complete", "rollout", "watch", ""); code != 0 || !strings.Contains(out, "worker\n") {
		t.Errorf("groups: %d %s", code, out)
	}
	if code, out := b.run("completion", "bash"); code != 0 || !strings.Contains(out, "__start_cadre") {
		t.Errorf("script: %d %.80s", code, out)
	}
}

func TestRestartAndPause(t *testing.T) {
	b := newBench(t)
	b.Set("worker", midRollout)
	if code, _ := b.run("instance", "restart", "worker-2", "--reason", "leaks memory"); code != 0 || b.Restarts()[0] != "worker-2: leaks memory" {
		t.Errorf("restart: exit %d, %v", code, b.Restarts())
	}
	if code, out := b.run("rollout", "pause", "worker", "--reason", "lunch"); code != 0 || !strings.Contains(out, "cadre rollout resume worker") {
		t.Errorf("pause: exit %d %s", code, out)
	}
	if code, out := b.run("rollout", "status", "worker"); code != 0 || !strings.Contains(out, ", paused by operator: lunch\n") {
		t.Errorf("status while paused: exit %d %s", code, out)
	}
	for _, want := range []string{"resumes", "was not paused"} {
		if code, out := b.run("rollout", "resume", "worker"); code != 0 || !strings.Contains(out, want) {
			t.Errorf("resume: exit %d %s, want %q", code, out, want)
		}
	}
}

// TestGEN02_ACommandReachesTheContextsClusterIDOnly: where another set of coordinators of the
// same app answers, every command ends with both cluster IDs and the way out.
func TestGEN02_ACommandReachesTheContextsClusterIDOnly(t *testing.T) {
	b := newBench(t)
	const other = "fedcba9876543210fedcba9876543210"
	c, err := client.LoadContext(b.context)
	if err != nil {
		t.Fatal(err)
	}
	c.Gateway.Address = clienttest.NewOf(t, other).Start(t).Gateway.Address
	if err := c.Save(b.context); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"group", "list"}, {"cluster", "status"}, {"cluster", "connect"}, {"admission", "list"}} {
		code, out := b.run(args...)
		if code == ExitOK {
			t.Errorf("%v succeeds", args)
		}
		for _, want := range []string{"CLUSTER_MISMATCH", clienttest.ClusterID, other, "cadre cluster connect --reattest"} {
			if !strings.Contains(out, want) {
				t.Errorf("%v does not say %s:\n%s", args, want, out)
			}
		}
	}
}

// An update leaves a slot at its revision alone, refuses a held slot with its hold, and waits for a
// busy group.
func TestInstanceUpdate(t *testing.T) {
	b := newBench(t)
	b.Set("worker", func(g *clienttest.Group) {
		midRollout(g)
		g.Plan.Actions = g.Plan.Actions[1:] // nothing is under way
	})
	if code, out := b.run("instance", "update", "worker-2"); code != ExitOK || !strings.Contains(out, "worker-2 runs revision ffeeddcc and is available") {
		t.Errorf("at its revision: %d\n%s", code, out)
	}
	if code, out := b.run("instance", "update", "worker-0"); code != ExitRefused || !strings.Contains(out, "max_unavailable: 1 of 1 in use by worker-1") {
		t.Errorf("held: %d\n%s", code, out)
	}
	if code, out := b.run("instance", "update", "worker-2", "--revision", "abc"); code != ExitRefused || !strings.Contains(out, "not abc") {
		t.Errorf("another revision: %d\n%s", code, out)
	}
	if code, out := b.run("instance", "update", "worker-9"); code != ExitNotFound || !strings.Contains(out, "worker-0, worker-1, worker-2") {
		t.Errorf("no such slot: %d\n%s", code, out)
	}
	b.Set("worker", func(g *clienttest.Group) {
		g.Plan.Actions = nil
		g.Status.Instances[0].Observed = g.Status.Target
		g.Status.Instances[0].State = "Joining"
	})
	if code, out := b.run("instance", "update", "worker-0", "--timeout", "10ms"); code != ExitTimeout || !strings.Contains(out, "the operation continues") {
		t.Errorf("not there in time: %d\n%s", code, out)
	}
	if asked := append(b.Restarts(), b.Updates()...); len(asked) > 0 {
		t.Errorf("asked for %v", asked)
	}
}
