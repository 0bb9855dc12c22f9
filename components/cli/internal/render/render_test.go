package render

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// On a terminal no line is wider than it, or a picture could not be redrawn.
func TestNothingIsWiderThanTheTerminal(t *testing.T) {
	list := []group.InstanceStatus{{Slot: "worker-0", State: "Unavailable", Health: "unhealthy", Reason: strings.Repeat("very ", 60) + "long", Role: "leader"}}
	for width := 20; width < 150; width += 7 {
		text := Instances(Style{Width: width}, list, width%2 == 0, time.Unix(0, 0)) +
			Style{Width: width}.Fields(Field{"message", C(strings.Repeat("x", 200))}) + Warnings(Style{Width: width}, []string{strings.Repeat("y", 200)})
		for _, line := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(strings.TrimRight(line, " ")); n > width {
				t.Errorf("width %d: line of %d columns: %q", width, n, line)
			}
		}
	}
}

// TestExtraSlotsAreMarked: the listing marks a fourth member of three as temporary.
func TestExtraSlotsAreMarked(t *testing.T) {
	one := group.InstanceStatus{Slot: "web-3", Ordinal: 3, State: "Available", Extra: true}
	plan := rollout.Plan{Group: "web", Actions: []rollout.Action{{Slot: "web-3", Kind: operation.Update, Extra: true, Execute: true}}}
	for name, text := range map[string]string{
		"list":     Instances(Style{}, []group.InstanceStatus{one}, false, time.Unix(0, 0)),
		"plan":     Plan(Style{}, plan, time.Unix(0, 0)),
		"describe": Instance(Style{}, client.Instance{Status: one}, time.Unix(0, 0)),
	} {
		if !strings.Contains(text, "web-3 (extra)") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// Only a plan of a group whose slots are all available says that nothing is needed: a slot that
// waits for its repair, or a group in deletion, also has no step.
func TestR2_AnIdlePlanSaysWhatItWaitsFor(t *testing.T) {
	down := []group.InstanceStatus{{Slot: "web-0", State: "Available"}, {Slot: "web-1", State: "Unavailable"}}
	going := []group.InstanceStatus{{Slot: "web-0", State: "Terminating"}}
	failed := []group.InstanceStatus{{Slot: "web-0", State: group.SlotFailed}}
	for _, c := range []struct {
		end string
		p   rollout.Plan
	}{
		{"nothing to do: every slot is where it should be\n", rollout.Plan{Message: "2 of 2", Status: group.Status{Replicas: 2, Available: 2, Instances: down[:1]}}},
		{"nothing begins now\n", rollout.Plan{Message: "waits for web-1: silent", Status: group.Status{Replicas: 2, Available: 1, Instances: down}}},
		{"nothing begins now\n", rollout.Plan{Message: "it is being deleted", Status: group.Status{Instances: going}}},
		{"nothing begins now\nweb-0 failed and no step follows: apply a corrected spec, or try again with `cadre instance restart SLOT`\n",
			rollout.Plan{Message: "waits for web-0: unhealthy", Status: group.Status{Replicas: 1, Instances: failed}}},
	} {
		if text := Plan(Style{}, c.p, time.Unix(0, 0)); !strings.HasSuffix(text, c.end) || strings.Count(text, c.p.Message) != 1 {
			t.Errorf("no %q, or not one %q, in\n%s", c.end, c.p.Message, text)
		}
	}
}

func TestARolloutThatEndedRunsNoMore(t *testing.T) {
	r := operation.Rollout{StartedAt: time.Unix(0, 0), EndedAt: time.Unix(31, 0), State: operation.Complete}
	text := Status(Style{}, client.View{Plan: rollout.Plan{Rollout: &r}}, nil, time.Unix(500, 0))
	if !strings.Contains(text, "took       31s\n") || strings.Contains(text, "running for") {
		t.Error(text)
	}
}

// The word for a stop is the one of `cadre overrides` and of the plan's hold: a frozen group is not paused.
func TestAFrozenGroupIsFrozen(t *testing.T) {
	until := time.Date(2026, 5, 4, 14, 0, 0, 0, time.Local)
	pause := client.Override{Kind: client.OverridePause, Name: "web", By: "bob", Reason: "lunch"}
	freeze := client.Override{Kind: client.OverrideFreeze, By: "ann (0d3c9f5e-3f1b-4a53-8f4e-2f3f1f0a7b11)", Until: until, Reason: "we look into it"}
	other := client.Override{Kind: client.OverrideFreeze, Name: "db", Reason: "no concern of web"}
	for _, c := range []struct {
		state     string
		overrides []client.Override
		want      string
	}{
		{"RUNNING", []client.Override{other}, "RUNNING (web-3), stopped by an operator: see `cadre overrides`"},
		{"RUNNING", []client.Override{pause}, "RUNNING (web-3), paused by bob: lunch"},
		{"PAUSED", []client.Override{pause}, "PAUSED (web-3) by bob: lunch"},
		{"PAUSED", []client.Override{freeze, pause}, "FROZEN (web-3) by ann (0d3c9f5e) until 2026-05-04 14:00:00: we look into it"},
		{"RUNNING", []client.Override{pause, freeze}, "RUNNING (web-3), frozen by ann (0d3c9f5e) until 2026-05-04 14:00:00: we look into it"},
		{"PAUSED", []client.Override{other}, "PAUSED (web-3)"},
	} {
		st := group.Status{Group: "web", Rollout: "web-3", RolloutState: c.state, Paused: true}
		if got := rolloutText(st, client.StopOf(c.overrides, "web")); got != c.want {
			t.Errorf("%s: %q, want %q", c.state, got, c.want)
		}
	}
}

// Foreign text must not drive the terminal.
func TestControlCharactersAreNotPrinted(t *testing.T) {
	text := Style{}.Table([]string{"A"}, [][]Cell{{C("x\x1b[2J\ny\u009b")}})
	if strings.ContainsAny(text, "\x1b\u009b") || strings.Count(text, "\n") != 2 {
		t.Errorf("table = %q", text)
	}
}

func TestColoursDoNotBreakAlignment(t *testing.T) {
	rows := [][]Cell{{T("ok", Good), C("1")}, {T("broken", Bad), C("2")}}
	plain := Style{}.Table([]string{"STATE", "N"}, rows)
	coloured := Style{Color: true}.Table([]string{"STATE", "N"}, rows)
	for _, code := range []string{"\x1b[32m", "\x1b[31m", "\x1b[1m", "\x1b[0m"} {
		coloured = strings.ReplaceAll(coloured, code, "")
	}
	if plain != coloured {
		t.Errorf("plain\n%s\ncoloured\n%s", plain, coloured)
	}
}
