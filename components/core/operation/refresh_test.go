package operation

import (
	"strings"
	"testing"
	"time"
)

// refreshing returns an Update that changes only the agent's own work and drains nothing.
func refreshing() (Operation, time.Time) {
	return begun(Update, func(op *Operation) { op.Way.Mode = ModeRefresh }), start
}

// TestARefreshIsNoBoot: the running Boot attests again, and the platform gets no call.
func TestARefreshIsNoBoot(t *testing.T) {
	op, now := refreshing()
	f := quiet(now)
	f.Platform.ComposeHash = "hash-B"
	op, effects := step(t, op, f, now, Booting)
	wantNoEffects(t, effects)
	if op.Call.HashWanted != "hash-B" || !op.Times.HealthyBy.Equal(now.Add(limits.Healthy)) || op.Call.Number != 0 {
		t.Errorf("record %+v", op)
	}
	f.Admission.Revision = "B" // the old boot, at the new revision
	op, effects = step(t, op, f, now, Joining)
	wantNoEffects(t, effects)
	if !op.Seen.RunningSince.IsZero() {
		t.Error("a boot is measured that nobody asked for")
	}
	f.PostLaunch = true // the step waits for no hook: nothing was launched
	f.ReadySince = now
	op, _ = step(t, op, f, now, Settling)
	if !op.Outage.From.IsZero() || !op.Outage.Until.IsZero() {
		t.Errorf("away from %s until %s", op.Outage.From, op.Outage.Until)
	}
}

// TestARefreshWaitsForTheHashThatItProves: the refresh waits for the wanted hash, and is planned again when no Boot
// could prove that hash.
func TestARefreshWaitsForTheHashThatItProves(t *testing.T) {
	op, now := refreshing()
	f := quiet(now)
	f.WantedHash = ""
	if op, _ := step(t, op, f, now, Drained); !strings.Contains(op.Reason, "is known") {
		t.Errorf("reason %q", op.Reason)
	}
	for name, edit := range map[string]func(*Facts){
		"another compose file": func(f *Facts) { f.Platform.ComposeHash = "hash-A" },
		"another size":         func(f *Facts) { f.WantedShape.InstanceType = "tdx.large" },
	} {
		f := quiet(now)
		f.Platform.ComposeHash, f.Platform.Shape = "hash-B", Shape{InstanceType: "tdx.small"}
		edit(&f)
		op, effects := step(t, op, f, now, Aborted)
		wantNoEffects(t, effects)
		if op.Failure.Cause != CauseUnwanted || !strings.HasPrefix(op.Reason, "planned again") {
			t.Errorf("%s: %s, %q", name, op.Failure.Cause, op.Reason)
		}
	}
}

// TestARefreshWaitsForItsNewChecks: only the new checks prove the refresh, from their first verdict on. Until then the
// member is available, and the healthy deadline runs.
func TestARefreshWaitsForItsNewChecks(t *testing.T) {
	op, now := refreshing()
	f := quiet(now)
	f.Platform.ComposeHash = "hash-B"
	op, _ = step(t, op, f, now, Booting)
	f.Admission.Revision, f.ReadySince = "B", now.Add(-time.Hour)
	op, _ = step(t, op, f, now, Joining)
	f.Unjudged = "check ready was not judged yet"
	now = now.Add(time.Minute)
	op, _ = step(t, op, f, now, Joining)
	if want := "available; check ready was not judged yet"; op.Reason != want {
		t.Errorf("reason %q, want %q", op.Reason, want)
	}
	late, _ := Advance(op, f, op.Times.HealthyBy)
	if late.Phase != Failed || late.Failure.Cause != CauseDeadline {
		t.Errorf("never judged: %s, %q", late.Phase, late.Failure.Cause)
	}
	f.Unjudged = ""
	op, _ = step(t, op, f, now, Settling)
	if !op.Seen.AvailableSince.Equal(now) {
		t.Errorf("available since %s, judged at %s", op.Seen.AvailableSince, now)
	}
	f.Unjudged = "another leader hears of the old ones"
	back, _ := step(t, op, f, now, Joining)
	if want := "fell back: " + f.Unjudged; back.Reason != want {
		t.Errorf("reason %q, want %q", back.Reason, want)
	}
	f.Unjudged, f.Limits.MinReady = "", 0
	step(t, op, f, now, Done)
	op.Way.Mode, f.Unjudged = ModeBoot, "what its agent says of checks"
	if op.unjudged(f) {
		t.Error("a Boot that began at the Revision has had nothing but its checks")
	}
}

// TestABootMayBeQuickerThanItsRefresh: the Boot attests as soon as the policy allows To, and the leader may be gone
// meanwhile. The step then proves To, even if To is unwanted by now.
func TestABootMayBeQuickerThanItsRefresh(t *testing.T) {
	op, now := refreshing()
	f := quiet(now)
	cvm := f.Platform
	cvm.ComposeHash, f.Unwanted, f.Paused, f.Safe = "hash-B", "the slot is not outdated any more", true, false
	f.Admission.Revision, f.Platform, f.PlatformKnown = "B", nil, false // the listing is still missing
	op, effects := step(t, op, f, now.Add(time.Hour), Booting)
	wantNoEffects(t, effects)
	op, _ = step(t, op, f, now.Add(time.Hour), Joining)
	if got := op.AssignedAfter("B"); got != "B" || op.Call.HashWanted != "hash-B" {
		t.Errorf("it is assigned %s, and is to be %q", got, op.Call.HashWanted)
	}
	early, _ := refreshing()
	f.Admission.Revision, f.Platform, f.PlatformKnown = "A", cvm, true
	step(t, early, f, now, Aborted)
}

// TestR105_AnUnprovenRefreshIsCalledOff when the Slot has another target by now, or must be removed. A refresh that
// proved its Revision in that moment goes on.
func TestR105_AnUnprovenRefreshIsCalledOff(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Facts)
		want Phase
	}{
		"it is led elsewhere":             {func(f *Facts) { f.Unwanted, f.Elsewhere = "the spec moved on", true }, Aborted},
		"its rollout failed beside it":    {func(f *Facts) { f.Unwanted = "the rollout failed" }, Booting},
		"it is paused":                    {func(f *Facts) { f.Paused = true }, Booting},
		"led elsewhere, and proven":       {func(f *Facts) { f.Unwanted, f.Elsewhere, f.Admission.Revision = "moved on", true, "B" }, Joining},
		"led elsewhere, and CVM vanished": {func(f *Facts) { f.Unwanted, f.Elsewhere, f.Platform = "moved on", true, nil }, Aborted},
	} {
		op, now := refreshing()
		f := quiet(now)
		f.Platform.ComposeHash = "hash-B"
		op, _ = step(t, op, f, now, Booting)
		c.edit(&f)
		next, effects := Advance(op, f, now)
		wantNoEffects(t, effects)
		if next.Phase != c.want {
			t.Errorf("%s: %s (%s), want %s", name, next.Phase, next.Reason, c.want)
		}
		if next.Phase == Aborted && next.AssignedAfter("B") != "A" {
			t.Errorf("%s: assigned %s", name, next.AssignedAfter("B"))
		}
	}
	op := begun(Update) // a called boot is not called off
	op.Phase, op.Entered[Booting] = Booting, start
	f := quiet(start)
	f.Unwanted, f.Elsewhere = "the spec moved on", true
	step(t, op, f, start, Booting)
}
