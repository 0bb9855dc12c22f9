package client_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

func dial(t *testing.T, c client.Context) *client.Client {
	t.Helper()
	cl, err := client.Dial(c, client.Options{CallTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	return cl
}

func TestCallsOverPinnedTLS(t *testing.T) {
	s := clienttest.New(t)
	c := dial(t, s.Start(t))
	s.Set("web", func(g *clienttest.Group) {
		g.Status = group.Status{Group: "web", Replicas: 3, Instances: []group.InstanceStatus{{Slot: "web-0", Health: "healthy"}}}
	})
	ctx := t.Context()
	if g, err := c.Group(ctx, "web"); err != nil || g.Status.Replicas != 3 || g.Index == 0 {
		t.Errorf("Group = %+v, %v", g, err)
	}
	if i, err := c.Instance(ctx, "web-0"); err != nil || i.Status.Health != "healthy" {
		t.Errorf("Instance = %+v, %v", i, err)
	}
	if id, err := c.Restart(ctx, "web-0", "why not"); err != nil || id == "" || s.Restarts()[0] != "web-0: why not" {
		t.Errorf("Restart = %q, %v", id, err)
	}
	if info, err := c.Cluster(ctx); err != nil || info.GetLeader() != "coordinator-1" {
		t.Errorf("Cluster = %v, %v", info, err)
	}
	if _, err := c.Group(ctx, "absent"); client.KindOf(err) != client.NotFound || !strings.Contains(err.Error(), "get group absent: no such group") {
		t.Errorf("absent group: %v", err)
	}
}

func TestErrorsInPeoplesWords(t *testing.T) {
	s := clienttest.New(t)
	good := s.Start(t)
	for _, c := range []struct {
		code codes.Code
		want client.Kind
	}{
		{codes.InvalidArgument, client.Invalid}, {codes.FailedPrecondition, client.Invalid}, {codes.Aborted, client.Conflict},
		{codes.PermissionDenied, client.Denied}, {codes.Internal, client.Internal}, {codes.Unimplemented, client.Internal},
	} {
		s.Fail("ApplyGroup", status.Error(c.code, "because"))
		_, err := dial(t, good).ApplyGroup(t.Context(), group.Spec{Name: "web"}, 0, false)
		if client.KindOf(err) != c.want || !strings.Contains(err.Error(), "apply group web: because") {
			t.Errorf("%s: %v has kind %s, want %s", c.code, err, client.KindOf(err), c.want)
		}
	}
	wrongToken := good
	wrongToken.Token = "x"
	if _, err := dial(t, wrongToken).Groups(t.Context()); client.KindOf(err) != client.Denied {
		t.Errorf("wrong token: %v", err)
	}
	nobody := good
	nobody.Gateway.Address = "127.0.0.1:1"
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := dial(t, nobody).Groups(ctx); client.KindOf(err) != client.Unavailable && client.KindOf(err) != client.Timeout {
		t.Errorf("no coordinator: %v", err)
	}
	unpinned := good
	unpinned.CAPEM = ""
	if _, err := client.Dial(unpinned, client.Options{}); client.KindOf(err) != client.Untrusted {
		t.Errorf("no pin: %v", err)
	}
}

// A server with another CA, or the right CA and another name, gets no token.
func TestGEN02_OnlyThePinnedClusterIsTalkedTo(t *testing.T) {
	mine, other := clienttest.New(t), clienttest.New(t)
	c := mine.Start(t)
	c.Gateway.Address = other.Start(t).Gateway.Address
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := dial(t, c).Groups(ctx)
	if client.KindOf(err) != client.Untrusted || !strings.Contains(err.Error(), "--reattest") {
		t.Errorf("other CA: %v", err)
	}
	if strings.Contains(err.Error(), "CLUSTER_MISMATCH") {
		t.Errorf("another CA of the same cluster ID is called another cluster ID: %v", err)
	}
	renamed := mine.Context()
	renamed.Cluster = "prod"
	if _, err := dial(t, renamed).Groups(ctx); client.KindOf(err) != client.Untrusted {
		t.Errorf("other name: %v", err)
	}
}

// TestGEN02_IDN08_AContextIsOfOneClusterID: a second set of coordinators of the same app, with the
// same name, receives no call and no token. The error names both cluster IDs and the way out.
func TestGEN02_IDN08_AContextIsOfOneClusterID(t *testing.T) {
	mine, second := clienttest.New(t), clienttest.NewOf(t, otherClusterID)
	c := mine.Start(t)
	c.Gateway.Address = second.Start(t).Gateway.Address
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := dial(t, c).Groups(ctx)
	for _, want := range []string{"CLUSTER_MISMATCH", clienttest.ClusterID, otherClusterID, "--reattest"} {
		if client.KindOf(err) != client.Untrusted || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for name, change := range map[string]func(*client.Context){
		"no cluster ID":                     func(c *client.Context) { c.ClusterID = "" },
		"a cluster ID that is not the CA's": func(c *client.Context) { c.ClusterID = otherClusterID },
		"a CA that is not the cluster ID's": func(c *client.Context) { c.CAPEM = string(second.CAPEM()) },
	} {
		changed := mine.Context()
		change(&changed)
		if _, err := client.Dial(changed, client.Options{}); client.KindOf(err) != client.Untrusted || !strings.Contains(err.Error(), "cluster ID") {
			t.Errorf("a context with %s: %v", name, err)
		}
	}
	bad := mine.Context()
	bad.ClusterID = "the first one"
	if err := bad.Save(filepath.Join(t.TempDir(), "demo.json")); err == nil || !strings.Contains(err.Error(), "cluster_id") {
		t.Errorf("a context with a cluster ID that is none: %v", err)
	}
}

func TestReadsOutliveARestart(t *testing.T) {
	s := clienttest.New(t)
	c := dial(t, s.Start(t))
	if _, err := c.Groups(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	if _, err := c.Groups(t.Context()); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

func TestWaitOutlivesCoordinators(t *testing.T) {
	s := clienttest.New(t)
	c := dial(t, s.Start(t))
	s.Set("web", func(g *clienttest.Group) {
		g.Status = group.Status{Group: "web", Replicas: 2, ObservedIndex: 20, RolloutState: "RUNNING", Target: "r1"}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	views := make(chan client.View, 16)
	result := make(chan error, 1)
	go func() {
		result <- c.Wait(ctx, "web", client.WaitOptions{Index: 20, Revision: "r1", See: func(v client.View) { views <- v }})
	}()
	<-views
	s.Restart(t)
	<-views
	s.Set("web", func(g *clienttest.Group) {
		g.Status.RolloutState, g.Status.Updated, g.Status.Available = "COMPLETE", 2, 2
	})
	if err := <-result; err != nil {
		t.Errorf("Wait: %v", err)
	}
	s.Set("web", func(g *clienttest.Group) { g.Status.RolloutState, g.Status.Message = "FAILED", "web-1 overdue" })
	err := c.Wait(ctx, "web", client.WaitOptions{Index: 20, Revision: "r1"})
	var failed *client.RolloutError
	if !errors.As(err, &failed) || failed.Reason != "web-1 overdue" {
		t.Errorf("Wait for a failed rollout: %v", err)
	}
	if err := c.Wait(ctx, "absent", client.WaitOptions{}); client.KindOf(err) != client.NotFound {
		t.Errorf("Wait for an absent group: %v", err)
	}
}

func TestOutcome(t *testing.T) {
	base := group.Status{Group: "g", ObservedIndex: 5, Target: "r", Replicas: 3, Updated: 3, Available: 3, RolloutState: "COMPLETE"}
	for _, c := range []struct {
		name   string
		change func(*group.Status)
		done   bool
		state  operation.RolloutState
	}{
		{"complete", func(*group.Status) {}, true, ""},
		{"not seen yet", func(s *group.Status) { s.ObservedIndex = 4 }, false, ""},
		{"not seen, old failure", func(s *group.Status) { s.ObservedIndex, s.RolloutState = 4, "FAILED" }, false, ""},
		{"running", func(s *group.Status) { s.RolloutState = "RUNNING" }, false, ""},
		{"complete but one away", func(s *group.Status) { s.Available = 2 }, false, ""},
		{"no rollout needed", func(s *group.Status) { s.RolloutState = "" }, true, ""},
		{"partition", func(s *group.Status) { s.RolloutState, s.Updated = "PARTITION_REACHED", 1 }, true, ""},
		{"failed", func(s *group.Status) { s.RolloutState = "FAILED" }, false, operation.FailedState},
		{"rolling back", func(s *group.Status) { s.RolloutState, s.Updated = "ROLLING_BACK", 1 }, false, ""},
		{"rolled back", func(s *group.Status) { s.RolloutState, s.Updated = "ROLLED_BACK", 0 }, false, operation.RolledBack},
		{"paused", func(s *group.Status) { s.RolloutState = "PAUSED" }, false, operation.PausedState},
		{"newer spec", func(s *group.Status) { s.ObservedIndex, s.Target = 6, "r2" }, false, operation.SupersededState},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := base
			c.change(&s)
			done, err := client.Outcome(client.View{Status: s}, 5, "r")
			var failed *client.RolloutError
			if errors.As(err, &failed) != (c.state != "") || failed != nil && failed.State != c.state || done != c.done {
				t.Errorf("Outcome(%+v) = %v, %v, want %v %s", s, done, err, c.done, c.state)
			}
		})
	}
}

func TestContextFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("CADRE_CONTEXT", "")
	if _, err := client.Path(""); !errors.Is(err, client.ErrNoContext) || !strings.Contains(err.Error(), "CADRE_CONTEXT") {
		t.Errorf("Path without contexts: %v", err)
	}
	path, err := client.Path("demo")
	if err != nil || path != filepath.Join(dir, "cadre", "demo.json") {
		t.Fatalf("Path = %s, %v", path, err)
	}
	want := client.Context{Cluster: "demo", Gateway: client.Gateway{Domain: "gw"}, CoordinatorAppID: "aa", Token: "t"}
	if err := want.Save(path); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Path(""); err != nil || got != path {
		t.Errorf("Path of the only context = %s, %v", got, err)
	}
	got, err := client.LoadContext(path)
	if err != nil || got.Cluster != "demo" || got.Token != "t" {
		t.Errorf("LoadContext = %+v, %v", got, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := client.LoadContext(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("readable by others: %v", err)
	}
	for text, hint := range map[string]bool{`{"cluster":"demo","nope":1}`: true, `{"cluster":1}`: false} {
		strange := filepath.Join(t.TempDir(), "strange.json")
		if err := os.WriteFile(strange, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := client.LoadContext(strange); err == nil || strings.Contains(err.Error(), "another version") != hint {
			t.Errorf("LoadContext of %s: %v", text, err)
		}
	}
	if err := want.Save(filepath.Join(dir, "cadre", "prod.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Path(""); err == nil || !strings.Contains(err.Error(), "demo, prod") {
		t.Errorf("two contexts: %v", err)
	}
	if _, err := client.Path("../x y"); err != nil {
		t.Errorf("a path: %v", err)
	}
	if _, err := client.Path("Demo!"); err == nil {
		t.Error("a bad name was accepted")
	}
}
