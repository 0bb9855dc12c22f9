package operation

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// reality is the true state of the CVM, independent of the records.
type reality struct {
	hash, boot string
	busyUntil  time.Time
	effects    int
	refused    bool
}

// TestR66_PropertyNoCallIsRepeatedBlindly, for any facts and crashes: a platform call is repeated only when the last
// call certainly had no effect. An ended Operation stays ended. The same facts have no second effect.
func TestR66_PropertyNoCallIsRepeatedBlindly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]Kind{Update, Restart, Create, Delete}).Draw(t, "kind")
		op, now := begun(kind), start
		real := reality{hash: "hash-A", boot: "boot-old"}
		if kind == Create {
			real = reality{}
		}
		var pending *CallResult // an answer that was not recorded yet
		provenAbsent := true    // the last call certainly had no effect
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
			f := observed(t, op, real, now)
			f.Call = pending
			if rapid.IntRange(0, 9).Draw(t, "takeover") == 0 {
				pending, f.Call = nil, nil // the process died with the answer
				f.Term = op.Term + 1
			}
			ended := op.Phase.Ended()
			next, effects := Advance(op, f, now)
			if ended && (!Same(op, next) || len(effects) > 0) {
				t.Fatalf("left %s for %s with %+v", op.Phase, next.Phase, effects)
			}
			if again, more := Advance(next, f, now); len(more) > 0 && more[0].Kind == CallPlatform && len(effects) > 0 && effects[0].Kind == CallPlatform {
				t.Fatalf("the same facts called twice: %s", again.Reason)
			}
			if rapid.IntRange(0, 9).Draw(t, "crash before the write") == 0 {
				continue // nothing recorded, nothing done
			}
			op = next
			if f.Call != nil && op.Call.Outcome != "" {
				pending = nil
			}
			for _, e := range effects {
				if e.Kind != CallPlatform {
					continue
				}
				if real.effects > 0 && !provenAbsent {
					t.Fatalf("call %d although an earlier one took effect", e.Number)
				}
				pending, provenAbsent = call(t, e, &real, now)
			}
		}
		if real.effects > 1 {
			t.Fatalf("%d calls took effect", real.effects)
		}
	})
}

// call performs the effect in one of the six ways of R150.
func call(t *rapid.T, e Effect, real *reality, now time.Time) (*CallResult, bool) {
	take := func() {
		real.effects++
		real.boot, real.busyUntil = "boot-new", now.Add(40*time.Second)
		switch e.Call {
		case PartCompose:
			real.hash = "hash-B"
		case PartCreate:
			real.hash = "hash-B"
		case PartDelete:
			real.boot = ""
		case PartStop, PartRestart, PartOSImage, PartResources:
		}
	}
	switch rapid.SampledFrom([]string{"done", "lost answer", "lost request", "crash before", "crash after", "refused", "busy"}).Draw(t, "call") {
	case "done":
		take()
		return &CallResult{Number: e.Number, Outcome: OutcomeDone}, false
	case "lost answer":
		take()
		return &CallResult{Number: e.Number, Outcome: OutcomeUnknown}, false
	case "lost request":
		return &CallResult{Number: e.Number, Outcome: OutcomeUnknown}, true
	case "crash after":
		take()
		return nil, false
	case "refused":
		real.refused = true
		return &CallResult{Number: e.Number, Outcome: OutcomeRefused}, true
	case "busy":
		return &CallResult{Number: e.Number, Outcome: OutcomeBusy}, true
	}
	return nil, true // crash before
}

// observed returns the view of an honest observer that sometimes sees nothing.
func observed(t *rapid.T, op Operation, real reality, now time.Time) Facts {
	f := Facts{Term: op.Term, PlatformKnown: true, ObservedAt: now, WantedHash: "hash-B", Limits: limits, Safe: rapid.Bool().Draw(t, "safe")}
	if rapid.IntRange(0, 9).Draw(t, "unwanted") == 0 {
		f.Unwanted = "the spec moved on"
	}
	f.Steps = answer(VerbDrain, rapid.SampledFrom([]StepState{StepRunning, StepDone, StepDone, StepDone}).Draw(t, "drain"))
	busy := now.Before(real.busyUntil)
	gone := op.Kind == Delete && real.effects > 0 && !busy || op.Kind == Create && real.effects == 0
	if !gone {
		f.Platform = &PlatformView{VMUUID: "vm-1", InstanceID: "i-1", Running: !busy, InProgress: busy, ComposeHash: real.hash, UpdatedAt: start}
		if real.effects > 0 {
			f.Platform.UpdatedAt = real.busyUntil
		}
	}
	if !busy && real.boot != "" {
		revision := map[string]string{"boot-old": op.From, "boot-new": op.To}[real.boot]
		f.Admission = &AdmissionView{BootID: real.boot, Revision: revision, InstanceID: "i-1"}
		f.LastReportOf, f.LastReportAt = real.boot, now
		if rapid.Bool().Draw(t, "ready") {
			f.ReadySince = now.Add(-time.Second)
		}
	}
	if rapid.IntRange(0, 4).Draw(t, "blind") == 0 {
		f.PlatformKnown, f.Platform = false, nil
	}
	return f
}
