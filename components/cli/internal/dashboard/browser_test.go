package dashboard

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/client/clienttest"
	"cadre.dev/core/audit"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

const isLive = `document.getElementById("connection").textContent === "live"`

// fill types into a field and sends its form.
func (b *browser) fill(values map[string]string) {
	b.t.Helper()
	b.await(`document.querySelector("form.make button.primary")`)
	for name, v := range values {
		b.eval(`document.querySelector("form.make [name=` + name + `]").value = ` + quoted(v))
	}
	b.eval(`document.querySelector("form.make button.primary").click()`)
}

func quoted(text string) string { return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"` }

// click follows the link or button with a text.
func (b *browser) click(text string) {
	b.t.Helper()
	b.await(`[...document.querySelectorAll("a, button")].some(e => e.textContent.trim() === ` + quoted(text) + `)`)
	b.eval(`[...document.querySelectorAll("a, button")].find(e => e.textContent.trim() === ` + quoted(text) + `).click()`)
}

// inLane waits until a slot is drawn in a lane, and nowhere else.
func (b *browser) inLane(slot, title string) {
	b.t.Helper()
	b.await(`(() => { const at = [...document.querySelectorAll(".lane")].filter(l => [...l.querySelectorAll(".name")].some(n => n.textContent === ` + quoted(slot) + `));
		return at.length === 1 && at[0].querySelector("h3").textContent.startsWith(` + quoted(title) + `); })()`)
}

// An operator undoes a rollout from the page, pauses and resumes it, and sees each phase without a reload.
func TestARolloutFromThePage(t *testing.T) {
	page := newBrowser(t)
	s := undoable(t)
	// The coordinator's leader: the applied spec begins a rollout.
	s.OnApply = func(g *clienttest.Group) {
		g.Status.ObservedIndex, g.Status.Target, g.Status.Stable, g.Status.RolloutState, g.Status.Updated = g.Index, older, newer, "RUNNING", 0
		g.Status.Message = "worker-2 goes first"
		g.Plan.Actions = []rollout.Action{{Slot: "worker-1", Kind: "UPDATE", From: newer, To: older, Holds: []rollout.Hold{{Predicate: rollout.HoldMaxUnavailable, Message: "1 of 1 in use by worker-2"}}}}
	}
	b := newBench(t, s)
	page.look(1180, 900, "light")
	page.open(b.enter)
	page.await(isLive)
	page.click("worker")
	page.click("Undo…")
	page.await(`document.querySelector("pre.preview")?.textContent.includes("back from revision")`)
	page.fill(map[string]string{"confirm": "another"})
	page.await(`document.querySelector("[role=alert]")?.textContent.includes("type worker to say that you mean it")`)
	page.fill(map[string]string{"confirm": "worker"})
	page.await(`document.querySelector(".said")?.textContent.includes("goes back to revision")`)
	page.await(isLive)
	page.await(`document.querySelector(".holds")?.textContent.includes("1 of 1 in use by worker-2")`)
	page.eval(`window.stayed = true`)
	for _, step := range []struct {
		phase, lane string
		state       group.SlotState
	}{
		{"DRAINING", "Draining", group.SlotDraining}, {"ACTING", "Acting", group.SlotUpdating}, {"BOOTING", "Booting", group.SlotBooting},
		{"JOINING", "Joining", group.SlotJoining}, {"SETTLING", "Settling", group.SlotSettling}, {"", "At target", group.SlotAvailable},
	} {
		b.Set("worker", func(g *clienttest.Group) {
			i := &g.Status.Instances[2]
			i.Phase, i.State = step.phase, step.state
			if step.phase == "" {
				i.Observed, i.Assigned = older, older
				g.Status.Updated = 1
			}
		})
		page.inLane("worker-2", step.lane)
		page.inLane("worker-0", "Waiting")
	}
	if page.eval(`window.stayed`) != true {
		t.Error("the page was loaded again")
	}
	page.click("Pause…")
	page.await(`document.activeElement.name === "for"`)
	page.fill(map[string]string{"reason": "the nightly report runs", "for": "2h"})
	page.await(`document.querySelector("h1 + .mark")?.textContent.includes("Paused") && document.querySelector(".overrides")?.textContent.includes("the nightly report runs")`)
	page.click("Resume…")
	page.fill(nil)
	page.await(`document.querySelector("h1 + .mark")?.textContent.includes("Running")`)
	page.await(isLive)
	b.Set("worker", func(g *clienttest.Group) {
		g.Status.RolloutState, g.Status.Stable, g.Status.Updated, g.Plan.Actions = "COMPLETE", older, 3, nil
		for n := range g.Status.Instances {
			g.Status.Instances[n].Observed, g.Status.Instances[n].Assigned = older, older
		}
	})
	page.await(`document.querySelector("h1 + .mark").textContent.includes("Complete") && document.querySelector(".calm")`)
	page.noErrors()
}

// No text from elsewhere runs, on the first picture and in live fragments.
func TestHostileTextDoesNotRun(t *testing.T) {
	page := newBrowser(t)
	b := newBench(t, hostile(t))
	page.open(b.enter)
	for _, path := range []string{"", "groups/" + evilName, "instances/" + evilName + "-0", "operations", "audit", "audit?q=" + evilQuery, "act/drain?on=" + evilQuery, "groups/" + evilQuery} {
		page.open(b.base + path)
		page.eval(`new Promise(done => setTimeout(done, 0))`)
		if strings.HasPrefix(path, "act/") {
			page.await(`document.querySelector("form.make")`)
		}
		if page.eval(`typeof hacked`) != "undefined" || page.eval(`document.querySelectorAll("img, script:not([src])").length`) != float64(0) {
			t.Errorf("%s ran a foreign text", path)
		}
	}
	page.open(b.base + "groups/" + evilName)
	page.await(isLive)
	b.Set(evilName, func(g *clienttest.Group) { g.Status.Message = "changed " + evil })
	page.await(`document.querySelector(".lead").textContent.startsWith("changed")`)
	if page.eval(`typeof hacked`) != "undefined" || page.eval(`document.querySelectorAll("img").length`) != float64(0) {
		t.Error("a live fragment ran a foreign text")
	}
	page.noErrors()
}

// The longest names and reasons of the audit chain stay within the window.
func TestLongEntriesFitTheWindow(t *testing.T) {
	page := newBrowser(t)
	s := world(t)
	long := func(length int) string { return strings.Repeat("x", length) }
	setAudit(s, audit.Entry{Who: audit.Operator, By: long(audit.MaxBy), Request: long(audit.MaxRequest), Verb: long(audit.MaxVerb), Object: long(audit.MaxObject), Reason: long(audit.MaxReason)})
	b := newBench(t, s)
	page.open(b.enter)
	for _, width := range []int{1180, 390} {
		page.look(width, 800, "light")
		page.open(b.base + "audit")
		if page.eval(`document.querySelector("table").scrollWidth <= document.querySelector("main").clientWidth`) != true {
			t.Errorf("the table is wider than a window of %d", width)
		}
	}
	page.noErrors()
}

// The keyboard reaches everything, focus shows, and a live change keeps it.
func TestKeyboard(t *testing.T) {
	page := newBrowser(t)
	b := newBench(t, world(t))
	page.open(b.enter)
	page.open(b.base + "groups/postgres")
	page.await(isLive)
	page.key("Tab")
	page.await(`document.activeElement.className === "skip" && document.activeElement.getBoundingClientRect().left >= 0`)
	page.key("Enter")
	page.await(`document.activeElement.id === "main" && location.pathname.endsWith("/groups/postgres")`)
	page.key("/")
	page.await(`document.activeElement.matches("[data-search]")`)
	page.key("z")
	page.await(`document.activeElement.value === "z"`)
	b.Set("postgres", func(g *clienttest.Group) { g.Status.Message = "postgres-1 joins" })
	page.await(`document.querySelector(".lead").textContent === "postgres-1 joins"`)
	if page.eval(`document.activeElement.matches("[data-search]") && document.activeElement.value === "z"`) != true {
		t.Error("a live change took the focus or the text")
	}
	page.key("Enter")
	page.await(`location.search.includes("q=z") && document.querySelector("#group\\.slots .empty")`)
	unnamed := page.eval(`[...document.querySelectorAll("a, button, input:not([type=hidden]), select")].filter(e => !(e.textContent.trim() || e.labels?.length && e.labels[0].textContent.trim())).length`)
	if unnamed != float64(0) {
		t.Errorf("%v controls have no name", unnamed)
	}
	page.noErrors()
}

// A lost connection shows since when, and ends automatically.
func TestTheBrowserShowsALostConnection(t *testing.T) {
	page := newBrowser(t)
	b := newBench(t, world(t))
	page.open(b.enter)
	page.open(b.base + "groups/postgres")
	page.await(isLive)
	b.Fail("WatchGroup", status.Error(codes.Unavailable, "the coordinator is going away"))
	b.Set("postgres", func(*clienttest.Group) {})
	page.await(`document.getElementById("connection").textContent.startsWith("connection lost since 12:00:00: ") && document.querySelector(".lanes")`)
	b.Fail("WatchGroup", nil)
	page.await(isLive)
	b.end()
	page.await(`document.getElementById("connection").textContent.includes("the dashboard on this machine does not answer")`)
	if err := <-b.ended; err != nil {
		t.Error(err)
	}
	b.ended <- nil // for the cleanup of the bench
}
