package policy

import (
	"strings"
	"testing"
	"time"
)

var contestBegin = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// TestIDN03_ChangesAndASignHoldASlot replays the coordinators' observations, one letter for each
// event: c a change of holder without an order, o one by an Operation, s a sign that two Boots are
// alive, r the operator's clearing.
func TestIDN03_ChangesAndASignHoldASlot(t *testing.T) {
	for events, reserved := range map[string]bool{
		"":           false,
		"ccc":        false, // a machine that crashes
		"cccccccccc": false,
		"s":          false,
		"ssss":       false, // one clone that asks and asks
		"csc":        false,
		"cscc":       true, // two that take it from each other
		"cscsc":      true,
		"sccc":       true,
		"cccs":       true, // the apparent crashes were a contest
		"ccccccs":    true,
		"csccoccc":   false, // an operation resets the contest
		"cscco":      false,
		"csccr":      false,
		"csccrccc":   false, // the sign is needed again
		"csccrcccs":  true,
		"csco":       false,
		"cscoc":      false,
		"csccsssccc": true, // the slot stays reserved until an operator clears it
	} {
		var c Contest
		at := contestBegin
		for _, e := range events {
			at = at.Add(time.Minute)
			switch e {
			case 'c':
				c = c.Changed(false, at)
			case 'o':
				c = c.Changed(true, at)
			case 's':
				c = c.Met("rival", at)
			case 'r':
				c = Contest{}
			}
		}
		if c.Reserved() != reserved {
			t.Errorf("%q: reserved %t, want %t (%+v)", events, c.Reserved(), reserved, c)
		}
		if why := c.Why("pg-0"); (why != "") != reserved || reserved && !strings.Contains(why, "cadre admission clear-conflict pg-0") {
			t.Errorf("%q: why %q", events, why)
		}
	}
}

func TestTheFirstSignIsKept(t *testing.T) {
	c := Contest{}.Met("one", contestBegin).Met("two", contestBegin.Add(time.Hour))
	if c.Rival != "one" || !c.RivalAt.Equal(contestBegin) {
		t.Errorf("%+v", c)
	}
	c = c.Changed(false, contestBegin).Changed(false, contestBegin).Changed(false, contestBegin)
	if at := c.ReservedAt; !c.Changed(false, contestBegin.Add(time.Hour)).ReservedAt.Equal(at) {
		t.Error("a later change moved the beginning of the hold")
	}
}

// TestIDN03_OnlyAFormerHolderCameBack: only a Boot that was given the Slot, and lost it to
// another one, is a sign that two are alive.
func TestIDN03_OnlyAFormerHolderCameBack(t *testing.T) {
	var d Decisions
	for _, e := range []DecisionEntry{
		{What: DecidedAdmit, BootID: "a"}, {What: DecidedAdmit, BootID: "b"}, {What: DecidedEvict, BootID: "b"},
		{What: DecidedRefuse, BootID: "x"}, {What: DecidedAdmit, BootID: "c"}, {What: DecidedReserve, BootID: "c"},
	} {
		d = d.Append("pg-0", e)
	}
	for boot, want := range map[string]bool{"a": true, "b": false, "c": false, "x": false, "nobody": false} {
		if got := CameBack(d, Admission{BootID: "c"}, boot); got != want {
			t.Errorf("boot %s came back: %t, want %t", boot, got, want)
		}
		if CameBack(d, Admission{}, boot) {
			t.Errorf("boot %s came back to a slot that nobody holds", boot)
		}
	}
	if CameBack(Decisions{}, Admission{BootID: "c"}, "a") {
		t.Error("a boot that nothing is known of came back")
	}
}

// TestBothAlive: a holder that died just before another Boot asked counts as live
// for a while.
func TestBothAlive(t *testing.T) {
	const fresh = 10 * time.Second
	for after, want := range map[time.Duration]bool{0: false, fresh: false, fresh + 1: true, time.Hour: true} {
		if got := BothAlive(contestBegin, contestBegin.Add(after), fresh); got != want {
			t.Errorf("asked %v ago: %t, want %t", after, got, want)
		}
	}
	if BothAlive(time.Time{}, contestBegin, fresh) {
		t.Error("nobody asked")
	}
}
