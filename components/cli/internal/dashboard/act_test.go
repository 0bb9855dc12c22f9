package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/client/clienttest"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// applicable is a spec that validates.
func applicable(digit string) group.Spec {
	s := group.Spec{Name: "worker", Platform: "phala", Replicas: 3, Template: group.Template{
		Compose: "services:\n  app:\n    image: app@sha256:" + strings.Repeat(digit, 64) + "\n", InstanceType: "tdx.small", OSImage: "dstack-0.5.9"}}
	s.Normalize()
	return s
}

// undoable is the world with a group whose spec has an earlier one.
func undoable(t *testing.T) *clienttest.Server {
	t.Helper()
	s := world(t)
	s.Set("worker", func(g *clienttest.Group) {
		quietGroup(g, "worker", 3, newer)
		g.Spec, g.Before = applicable("b"), applicable("a")
	})
	return s
}

// Each override of the command line has its form, which sets and clears it.
func TestOverridesFromThePage(t *testing.T) {
	for _, c := range []struct {
		set, undo, on string
		kind          apiv1.OverrideKind
	}{
		{"pause", "resume", "postgres", apiv1.OverrideKind_OVERRIDE_KIND_PAUSE},
		{"freeze", "unfreeze", "postgres", apiv1.OverrideKind_OVERRIDE_KIND_FREEZE},
		{"freeze", "unfreeze", "", apiv1.OverrideKind_OVERRIDE_KIND_FREEZE},
		{"drain", "undrain", "postgres-1", apiv1.OverrideKind_OVERRIDE_KIND_DRAIN},
		{"protect", "unprotect", "postgres-1", apiv1.OverrideKind_OVERRIDE_KIND_PROTECT},
		{"exclude", "include", "postgres-1", apiv1.OverrideKind_OVERRIDE_KIND_EXCLUDE},
	} {
		t.Run(c.set+" "+c.on, func(t *testing.T) {
			b := entered(t, world(t))
			if c.set != "pause" {
				if code, body := b.act(actPath(c.set, c.on), "reason", " "); code != http.StatusUnprocessableEntity || !strings.Contains(body, "reason: is missing") {
					t.Errorf("without a reason: %d %s", code, body)
				}
			}
			if code, body := b.act(actPath(c.set, c.on), "reason", "x", "for", "soon"); code != http.StatusUnprocessableEntity || !strings.Contains(body, "for: &#34;soon&#34; is no duration") || !strings.Contains(body, `value="soon"`) {
				t.Errorf("a wrong time: %d %s", code, body)
			}
			if code, body := b.act(actPath(c.set, c.on), "reason", "x", "for", "-2h"); code != http.StatusUnprocessableEntity || !strings.Contains(body, "more than 0") {
				t.Errorf("a negative time: %d %s", code, body)
			}
			if n := len(b.ActiveOverrides()); n != 0 {
				t.Fatalf("%d overrides were set", n)
			}
			code, body := b.act(actPath(c.set, c.on), "reason", "the host gets memory", "for", "2h")
			if code != http.StatusOK || !strings.Contains(body, "is in effect until 2026-05-04 14:00:00") {
				t.Fatalf("set: %d %s", code, body)
			}
			if list := b.ActiveOverrides(); len(list) != 1 || list[0].GetKind() != c.kind || list[0].GetName() != c.on || list[0].GetReason() != "the host gets memory" {
				t.Fatalf("overrides %v", list)
			}
			if code, body := b.act(actPath(c.undo, c.on)); code != http.StatusOK || !strings.Contains(body, "has ended") {
				t.Fatalf("clear: %d %s", code, body)
			}
			if n := len(b.ActiveOverrides()); n != 0 {
				t.Errorf("%d overrides are left", n)
			}
		})
	}
}

func TestExcludeTakesItsChoicesOnly(t *testing.T) {
	b := entered(t, world(t))
	if code, body := b.act("act/exclude?on=postgres-1", "reason", "x", "from", "all"); code != http.StatusUnprocessableEntity || !strings.Contains(body, "is no choice") {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := b.act("act/exclude?on=postgres-1", "reason", "x", "from", "healing"); code != http.StatusOK || !slices.Equal(b.ActiveOverrides()[0].GetFrom(), []string{"healing"}) {
		t.Errorf("%d %v", code, b.ActiveOverrides())
	}
}

func TestRequestsFromThePage(t *testing.T) {
	b := entered(t, world(t))
	if code, body := b.act("act/restart?on=web-1", "reason", "it leaks", "service", "app"); code != http.StatusOK || !strings.Contains(body, "is queued") {
		t.Errorf("%d %s", code, body)
	}
	if got := b.Restarts(); !slices.Equal(got, []string{"web-1/app: it leaks"}) {
		t.Errorf("restarts %q", got)
	}
	if code, body := b.act("act/cancel?on=restart-0f3a5c1b8d2e4f60718293a4b5c6d7e8"); code != http.StatusOK || !strings.Contains(body, "Nothing waits to begin") {
		t.Errorf("%d %s", code, body)
	}
	if code, body := b.act("act/cancel?on=restart-0f3a5c1b8d2e4f60718293a4b5c6d7e8"); code != http.StatusNotFound || !strings.Contains(body, "nothing is changed") {
		t.Errorf("a second time: %d %s", code, body)
	}
	s := world(t)
	s.SetWayOut(clienttest.WayOut{Retried: &apiv1.RetryRolloutResponse{Changed: true, Rollout: "kafka-1", RolloutState: "FAILED"},
		Promoted: &apiv1.PromoteRolloutResponse{Changed: true, Rollout: "kafka-1", Stage: 1, Stages: 2}})
	b = entered(t, s)
	if code, body := b.act("act/retry?on=kafka"); code != http.StatusUnprocessableEntity || !strings.Contains(body, "reason: is missing") {
		t.Errorf("a retry without a reason: %d %s", code, body)
	}
	if code, body := b.act("act/promote?on=kafka", "reason", "it is as fast"); code != http.StatusOK || !strings.Contains(body, "stage 1 of 2 is promoted") {
		t.Errorf("%d %s", code, body)
	}
	if code, body := b.act("act/retry?on=kafka", "reason", "the disk is larger"); code != http.StatusOK || !strings.Contains(body, "rollout kafka-1 continues") {
		t.Errorf("%d %s", code, body)
	}
}

// The undo shows the difference and the plan, wants the typed name, and refuses a proposal that has changed.
func TestUndoIsConfirmedByName(t *testing.T) {
	b := entered(t, undoable(t))
	_, page := b.get("act/undo?on=worker")
	for _, want := range []string{"back from revision", strings.Repeat("a", 64), "Type <strong>worker</strong>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the form lacks %q: %s", want, page)
		}
	}
	if code, body := b.act("act/undo?on=worker", "confirm", "postgres"); code != http.StatusUnprocessableEntity || !strings.Contains(body, "type worker to say that you mean it") {
		t.Errorf("another name: %d %s", code, body)
	}
	if code, body := b.act("act/undo?on=worker", "confirm", "worker", "shown_revision", "00"); code != http.StatusUnprocessableEntity || !strings.Contains(body, "look at the effect again") {
		t.Errorf("another proposal: %d %s", code, body)
	}
	if code, body := b.act("act/undo?on=worker", "confirm", "worker"); code != http.StatusOK || !strings.Contains(body, "goes back to revision") {
		t.Fatalf("%d %s", code, body)
	}
	b.Set("worker", func(g *clienttest.Group) {
		if g.Spec.Template.Compose != applicable("a").Template.Compose || !strings.HasPrefix(g.AppliedRequest, "undo-") {
			t.Errorf("the spec was not written: %s %s", g.Spec.Template.Compose, g.AppliedRequest)
		}
	})
}

func TestMarksAreConfirmedByName(t *testing.T) {
	s := world(t)
	s.Set("postgres", func(g *clienttest.Group) {
		op := &g.Operations[0]
		op.Phase, op.Call.Outcome, op.Entered = operation.Acting, operation.OutcomeUnknown, map[operation.Phase]time.Time{operation.Acting: noon.Add(-time.Hour)}
	})
	b := entered(t, s)
	if _, page := b.get("operations"); !strings.Contains(page, "act/mark-failed?on=postgres-4-1a2b3c4d.2.postgres-1") {
		t.Errorf("no way to mark: %s", page)
	}
	if _, page := b.get(""); !strings.Contains(page, "the platform call of UPDATE does not end") {
		t.Errorf("the overview hides the undecided call: %s", page)
	}
	path := "act/mark-failed?on=postgres-4-1a2b3c4d.2.postgres-1"
	if code, body := b.act(path, "confirm", "postgres-1"); code != http.StatusUnprocessableEntity || !strings.Contains(body, "reason: is missing") {
		t.Errorf("without a reason: %d %s", code, body)
	}
	if code, body := b.act(path, "reason", "no trace of it"); code != http.StatusUnprocessableEntity || !strings.Contains(body, "type postgres-1") {
		t.Errorf("without the name: %d %s", code, body)
	}
	if code, body := b.act(path, "reason", "no trace of it", "confirm", "postgres-1"); code != http.StatusOK || !strings.Contains(body, "is taken for failed") {
		t.Errorf("%d %s", code, body)
	}
	if got := b.Decided(); !slices.Contains(got, "resolve postgres-4-1a2b3c4d.2.postgres-1 as failed: no trace of it") {
		t.Errorf("decided %q", got)
	}
}

// An approval covers the compose hash that the form shows.
func TestApproveShowsTheHash(t *testing.T) {
	b := entered(t, world(t))
	if code, page := b.get("act/approve"); code != http.StatusOK || !strings.Contains(page, `name="on"`) || strings.Contains(page, `method="post"`) {
		t.Errorf("%d %s", code, page)
	}
	_, page := b.get("act/approve?on=" + newer + "&group=worker")
	if !strings.Contains(page, "compose hash") || !strings.Contains(page, "docker_compose_file") {
		t.Errorf("no hash: %s", page)
	}
	if code, body := b.get("act/approve?on=edited"); code != http.StatusBadGateway && code != http.StatusUnprocessableEntity || strings.Contains(body, `method="post"`) {
		t.Errorf("a document with another hash: %d %s", code, body)
	}
	if code, body := b.act("act/approve?on="+newer+"&group=worker", "note", "CHG-1"); code != http.StatusOK || !strings.Contains(body, "is approved as compose hash") {
		t.Errorf("%d %s", code, body)
	}
	if got := b.Decided(); !slices.Contains(got, fmt.Sprintf("approve %s worker CHG-1", newer)) {
		t.Errorf("decided %q", got)
	}
}

// The page shows an error of the API word by word.
func TestErrorsAreVerbatim(t *testing.T) {
	b := entered(t, world(t))
	b.Fail("SetOverride", status.Error(codes.PermissionDenied, "PERMISSION_DENIED: the token may not write control/pause/postgres"))
	if code, body := b.act("act/pause?on=postgres"); code != http.StatusForbidden || !strings.Contains(body, "PERMISSION_DENIED: the token may not write control/pause/postgres") {
		t.Errorf("%d %s", code, body)
	}
	for path, want := range map[string]int{"groups/nothing": http.StatusNotFound, "instances/nothing-7": http.StatusNotFound, "nothing": http.StatusNotFound, "act/nothing": http.StatusNotFound,
		"groups/": http.StatusNotFound, "act/drain": http.StatusBadGateway, "overlay?slot=nothing-0": http.StatusNotFound} {
		code, body := b.get(path)
		if path == "act/drain" {
			want = code // any error will do
			if code == http.StatusOK {
				t.Errorf("%s has no target, and was taken", path)
			}
		}
		if code != want || !strings.Contains(body, "<main") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if code, _ := b.post("act/drain", url.Values{"token": {b.server.session.form}, "reason": {"x"}}); code == http.StatusOK {
		t.Error("a drain of no slot was taken")
	}
}
