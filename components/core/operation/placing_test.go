package operation

import (
	"strings"
	"testing"
	"time"
)

// The chosen node stands in the record together with the call that uses it, and in no other call.
func TestTheNodeIsRecordedWithTheCreate(t *testing.T) {
	op := begun(Create)
	f := happy(op, start)
	f.Node = "host-b"
	next, effects := step(t, op, f, start.Add(time.Second), Acting)
	wantCall(t, effects, Create, 1)
	if next.Call.Node != "host-b" {
		t.Errorf("the record names node %q", next.Call.Node)
	}
	op = begun(Update, skipped)
	f = quiet(start)
	f.Node = "host-b"
	if next, _ = step(t, op, f, start.Add(time.Second), Acting); next.Call.Node != "" {
		t.Errorf("an update names node %q", next.Call.Node)
	}
}

// A replacement deletes first: its second call chooses.
func TestAReplacementChoosesWithItsSecondCall(t *testing.T) {
	op := begun(Replace, skipped)
	f := quiet(start)
	f.Node = "host-b"
	op, effects := step(t, op, f, start.Add(time.Second), Acting)
	if len(effects) != 1 || effects[0].Call != PartDelete || op.Call.Node != "" {
		t.Fatalf("call %+v, effects %+v", op.Call, effects)
	}
	now := start.Add(2 * time.Second)
	f.Call = &CallResult{Number: 1, Outcome: OutcomeDone}
	op, _ = Advance(op, f, now)
	f = quiet(start.Add(time.Minute))
	f.Platform, f.Admission, f.Node = nil, nil, "host-c"
	for range 3 {
		if op.Call.Part == PartCreate {
			break
		}
		op, _ = Advance(op, f, start.Add(time.Minute))
	}
	if op.Call.Part != PartCreate || op.Call.Node != "host-c" {
		t.Errorf("call %+v at %s: %s", op.Call, op.Phase, op.Reason)
	}
}

// A member of another group may come to the node between the record and the call: the call is not made, and the next one
// has another choice.
func TestAMisplacedCreateIsNotCalledAndChoosesAgain(t *testing.T) {
	op := begun(Create)
	f := happy(op, start)
	f.Node = "host-a"
	op, _ = step(t, op, f, start.Add(time.Second), Acting)
	f = happy(op, start.Add(2*time.Second))
	f.Call, f.Misplaced = nil, "host-a has a member of group batch"
	if reason, ok := MayCall(op, f); ok || !strings.Contains(reason, "group batch") {
		t.Fatalf("may call: %t, %q", ok, reason)
	}
	f.Call, f.Misplaced, f.Node = &CallResult{Number: 1, Outcome: OutcomeNotMade, Message: "host-a has a member of group batch"}, "", "host-b"
	op, _ = step(t, op, f, start.Add(3*time.Second), Acting)
	f.Call = nil
	op, effects := step(t, op, f, start.Add(time.Minute), Acting)
	wantCall(t, effects, Create, 2)
	if op.Call.Node != "host-b" {
		t.Errorf("the second call names node %q", op.Call.Node)
	}
}
