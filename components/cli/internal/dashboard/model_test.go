package dashboard

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/cli/internal/overview"
	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/audit"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Names and reasons from elsewhere are text on each page.
func TestHostileTextIsText(t *testing.T) {
	b := entered(t, hostile(t))
	for _, path := range []string{"", "groups/" + evilName, "instances/" + evilName + "-0", "operations", "operations?q=" + evilQuery, "overlay", "admissions", "audit", "audit?q=" + evilQuery, "audit?q=" + url.QueryEscape(evil), "act/drain?on=" + evilQuery, "act/retry?on=" + evilQuery,
		"act/mark-failed?on=op" + evilQuery, "groups/" + evilQuery, evilQuery, "act/" + evilQuery} {
		_, body := b.get(path)
		if strings.Contains(body, "<script>hacked") || strings.Contains(body, "<img") || strings.Contains(body, `"javascript:`) || strings.Contains(body, "</textarea>") {
			t.Errorf("%s has the text as HTML: %s", path, body)
		}
	}
	e := b.stream("groups/" + evilName)
	if data := e.until("fragment", "&lt;script&gt;"); strings.Contains(data, "<script>") {
		t.Error("a live fragment has the text as HTML")
	}
	if data := b.stream("audit").until("fragment", "&lt;script&gt;"); strings.Contains(data, "<script>") {
		t.Error("a live fragment of the audit chain has the text as HTML")
	}
	b.Fail("GetAuditHead", status.Error(codes.PermissionDenied, evil))
	if data := b.stream("audit").until("fragment", "&lt;img"); strings.Contains(data, "<img") {
		t.Error("a denied answer has the text as HTML")
	}
}

const (
	evil      = `"><script>hacked = 1</script><img src=x onerror="hacked = 1">'javascript:hacked=1</textarea>`
	evilName  = "worker"
	evilQuery = "%22%3E%3Cscript%3Ehacked%20=%201%3C%2Fscript%3E%3Cimg%20src=x%20onerror=%22hacked=1%22%3E"
)

// hostile is a cluster whose every text is an attack.
func hostile(t *testing.T) *clienttest.Server {
	t.Helper()
	s := world(t)
	s.Set(evil, func(g *clienttest.Group) { quietGroup(g, evil, 1, evil) })
	s.Set(evilName, func(g *clienttest.Group) {
		quietGroup(g, evilName, 2, newer)
		g.Status.Message, g.Status.RolloutState, g.Status.Stable, g.AppliedBy = evil, evil, evil, evil
		g.Status.Paused = true
		g.Status.Conditions = []group.Condition{{Type: evil, Reason: evil, Message: evil, Since: noon}}
		g.Plan.Warnings, g.Plan.Rollout = []string{evil}, &operation.Rollout{ID: evil, Reason: evil, By: evil}
		g.Plan.Actions = []rollout.Action{{Slot: evil, Kind: operation.Kind(evil), From: evil, To: evil, Holds: []rollout.Hold{{Predicate: evil, Message: evil}, {Predicate: "paused", Message: evil}}, Before: operation.Before{Quorum: evil}}}
		g.Rollouts = []operation.Rollout{{ID: evil, State: operation.RolloutState(evil), Reason: evil, By: evil, From: evil, To: evil}}
		i := &g.Status.Instances[0]
		i.State, i.Health, i.Role, i.Reason, i.LastRefusal, i.Observed, i.Phase, i.VIP, i.Operation = group.SlotState(evil), evil, evil, evil, evil, evil, evil, evil, evil
		i.Drain, i.Exclusion, i.Holds = &group.Override{Reason: evil, By: evil}, &group.Override{From: []string{evil}, Reason: evil}, []group.Hold{{Predicate: evil, Message: evil}}
		g.Operations = []operation.Operation{{ID: evil, Slot: evilName + "-0", Kind: operation.Kind(evil), Phase: operation.Phase(evil), Actor: operation.Actor(evil), Reason: evil, Request: operation.Request{By: evil}}}
		g.Admissions = [][]byte{[]byte(`{"boot_id":"<script>hacked=1</script>","code":"<img src=x>","message":"<script>hacked = 1</script>","by":"<img src=x>"}`)}
	})
	s.SetWayOut(clienttest.WayOut{Waiting: []client.Asked{{ID: evil, Kind: evil, Slot: evil, By: evil, Reason: evil}}})
	setAudit(s, audit.Entry{Who: audit.Actor(evil), By: evil, Request: evil, Verb: evil, Object: evil, Reason: evil})
	return s
}

// The first page of 10,000 slots is bounded, and each slot can be found.
func TestTenThousandSlots(t *testing.T) {
	const slots, most = 10_000, 160 << 10
	s := clienttest.New(t)
	s.Set("big", func(g *clienttest.Group) {
		quietGroup(g, "big", slots, older)
		g.Status.RolloutState, g.Status.Target = "RUNNING", newer
		g.Status.Instances[7321].State, g.Status.Instances[7321].Health, g.Status.Instances[7321].Reason = group.SlotUnavailable, "unhealthy", "its check web fails"
		for n := range slots {
			g.Plan.Actions = append(g.Plan.Actions, rollout.Action{Slot: fmt.Sprintf("big-%d", n), Ordinal: n, Kind: operation.Update, From: older, To: newer,
				Holds: []rollout.Hold{{Predicate: rollout.HoldMaxUnavailable, Message: "1 of 1 in use by big-7321"}}})
		}
	})
	b := entered(t, s)
	code, page := b.get("groups/big")
	if code != http.StatusOK || len(page) > most {
		t.Fatalf("%d with %d bytes, more than %d", code, len(page), most)
	}
	t.Logf("%d bytes", len(page))
	for _, want := range []string{"1–100 of 10000", "and 9976 more slots", "big-0, big-1, big-2, big-3, big-4, and 9995 more", "and 9950 more actions"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if _, page := b.get("groups/big?state=attention"); !strings.Contains(page, "instances/big-7321") || len(page) > most {
		t.Errorf("the filter by state hides the slot that needs attention (%d bytes)", len(page))
	}
	if _, page := b.get("groups/big?q=big-9999"); !strings.Contains(page, "1–1 of 1") && !strings.Contains(page, `href="instances/big-9999"`) {
		t.Error("the search does not find a slot")
	}
	if _, page := b.get("groups/big?page=100"); !strings.Contains(page, `href="instances/big-9900"`) {
		t.Error("the last page lacks its slots")
	}
	for _, page := range []string{"groups/big?page=-1", "groups/big?page=99999999999999999999", "groups/big?page=5000", "groups/big?q=" + strings.Repeat("x", 5000)} {
		if code, body := b.get(page); code != http.StatusOK || len(body) > most {
			t.Errorf("%.40s: %d, %d bytes", page, code, len(body))
		}
	}
}

// The remedies are those of the page about holds, and each hold of the planner has one.
func TestClearsAreThoseOfTheRules(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/evidence/rollout-rules.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [^|]* \\| [^|]* \\| [^|]* \\| ([^|]*) \\|$").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 40 {
		t.Fatalf("only %d rows", len(rows))
	}
	for _, row := range rows {
		if clears[row[1]] != row[2] {
			t.Errorf("%s: %q in the page, %q here", row[1], row[2], clears[row[1]])
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), "../../../core/rollout/holdnames.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			if name, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value); err == nil && clears[name] == "" {
				t.Errorf("the hold %s has no remedy", name)
			}
		}
		return true
	})
	for predicate, verb := range remedies {
		if _, ok := actions[verb]; !ok || clears[predicate] == "" {
			t.Errorf("%s: no action %s", predicate, verb)
		}
	}
}

func TestLanes(t *testing.T) {
	for phase, want := range map[operation.Phase]string{"": "Waiting", operation.Draining: "Draining", operation.Drained: "Draining", operation.Acting: "Acting", operation.Booting: "Booting",
		operation.Joining: "Joining", operation.Settling: "Settling", operation.Failed: "Waiting"} {
		if got := laneTitles[laneOf(group.InstanceStatus{Phase: string(phase), Observed: older}, newer)]; got != want {
			t.Errorf("%s: %s", phase, got)
		}
	}
	if got := laneTitles[laneOf(group.InstanceStatus{Observed: newer}, newer)]; got != "At target" {
		t.Errorf("at the target: %s", got)
	}
}

// A page whose answers have not come yet is built all the same.
func TestEmptyAnswers(t *testing.T) {
	s := &Server{Client: nil}
	draw, err := newDrawing(func() time.Time { return noon })
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]page{"overview": s.overviewPage(filter{Page: 1}), "operations": s.operationsPage(filter{Page: 1}, false), "overlay": s.overlayPage(filter{Page: 1}, ""),
		"admissions": s.admissionsPage(filter{Page: 1}), "group": {sources: make([]source, 3), build: s.groupPage("x", filter{Page: 1}).build}, "instance": s.instancePage("x-0")} {
		got := make([]snapshot, len(p.sources))
		if list, err := fragments(draw.whole, p, got, noon); err != nil || len(list) != 1 || list[0].ID != "waiting" {
			t.Errorf("%s without an answer: %v %v", name, list, err)
		}
		got[0].value = struct{}{}
		if _, err := fragments(draw.whole, p, got, noon); err != nil {
			t.Errorf("%s with an empty answer: %v", name, err)
		}
	}
}

// A freeze stops a rollout as a pause does, and only the verb that ends it is offered.
func TestAFrozenGroupIsFrozen(t *testing.T) {
	v := client.View{Status: group.Status{Group: "web", RolloutState: "PAUSED", Paused: true}}
	for word, o := range map[string]client.Override{"Frozen": {Kind: client.OverrideFreeze, Name: "web"}, "Paused": {Kind: client.OverridePause, Name: "web"}} {
		m := groupOf("web", v, groupAnswer{overrides: []client.Override{o}}, noon)
		if m.Rollout.Text != word || offers(m.Buttons, "Resume") != (word == "Paused") || offers(m.Buttons, "Unfreeze") != (word == "Frozen") {
			t.Errorf("%s: %q with %v", word, m.Rollout.Text, m.Buttons)
		}
		answer := clusterAnswer{groups: []*apiv1.GroupSummary{{Group: "web", RolloutState: "PAUSED"}}, overrides: []client.Override{o}}
		if row := overviewOf(answer, cvmAnswer{}, nil).Groups[0]; row.Rollout.Text != word {
			t.Errorf("overview: %q, want %q", row.Rollout.Text, word)
		}
	}
}

func offers(list []button, text string) bool {
	return slices.ContainsFunc(list, func(b button) bool { return b.Text == text })
}

// In a rollback the slots that are back have arrived, and the page has the reason.
func TestARollbackShowsItsReasonAndItsWay(t *testing.T) {
	for state, over := range map[operation.RolloutState]bool{operation.RollingBack: false, operation.RolledBack: false, operation.Running: true} {
		r := operation.Rollout{State: state, From: older, To: newer, Reason: "web-1 failed its check", Back: &operation.Back{Revision: older, Over: over}}
		v := client.View{Status: group.Status{Group: "web", RolloutState: string(state), Stable: older, Target: newer, Replicas: 2, Message: "waits for web-1",
			Instances: []group.InstanceStatus{{Slot: "web-0", Observed: older}, {Slot: "web-1", Observed: newer}}}}
		v.Plan.Rollout = &r
		m := groupOf("web", v, groupAnswer{}, noon)
		last, arrived, title := m.Progress.Lanes[len(laneTitles)-1], "web-0", backTitle
		if over {
			arrived, title = "web-1", "At target"
		}
		if last.Title != title || last.Count != 1 || last.Chips[0].Slot != arrived {
			t.Errorf("%s: the last lane is %+v", state, last)
		}
		if slices.Contains(m.Warnings, r.Reason) == over {
			t.Errorf("%s: warnings %q", state, m.Warnings)
		}
	}
}

// The problems are the findings of `cadre status` that need a person, with the action that ends a hold.
func TestProblemsAreTheFindingsThatNeedAPerson(t *testing.T) {
	f := overview.Facts{Now: noon, Cluster: "demo", Coordinators: []overview.Coordinator{{Name: "coordinator-0", Answered: true, Leader: "coordinator-0"}},
		Groups: []overview.Group{{Name: "web", Replicas: 2, Available: 1, RolloutState: "RUNNING"}},
		Slots: []group.InstanceStatus{
			{Group: "web", Slot: "web-0", State: group.SlotAvailable, Holds: []group.Hold{{Predicate: rollout.HoldStagePromotion, Message: "stage 1 of 2 has baked"}}},
			{Group: "web", Slot: "web-1", State: group.SlotUpdating},
		},
		Overrides: []client.Override{{Kind: client.OverrideFreeze, At: noon.Add(-time.Hour)}},
	}
	report := overview.Assess(f)
	got := problemsOf(report)
	if len(got) != 1 || got[0].Path != "groups/web" || got[0].Fix.Path != actPath("promote", "web") || got[0].Mark.Text != "Ticket" || got[0].Command != "cadre rollout plan web" {
		t.Errorf("%+v of %+v", got, report.Findings)
	}
	if report.NeedsPerson != (len(got) > 0) {
		t.Errorf("needs a person: %v, problems: %d", report.NeedsPerson, len(got))
	}
}
