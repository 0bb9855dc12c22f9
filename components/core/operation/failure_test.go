package operation

import (
	"strings"
	"testing"
	"time"
)

// TestFailureNamesTheRefusal of the awaited boot, and no refusal from before the call.
func TestFailureNamesTheRefusal(t *testing.T) {
	for name, c := range map[string]struct {
		own  bool
		when time.Duration // after the call
		want Failure
	}{
		"the slot's own boot": {true, 0, Failure{Cause: CauseDeadline, Refused: "REVISION_NOT_ALLOWED", Own: true}},
		"a stranger's":        {false, 0, Failure{Cause: CauseDeadline, Refused: "REVISION_NOT_ALLOWED"}},
		"before the call":     {true, -time.Second, Failure{Cause: CauseDeadline}},
	} {
		op, now := to(t, Update, Booting)
		late := op.Times.HealthyBy
		f := rebooting(late)
		f.Refusal = &RefusalView{Code: "REVISION_NOT_ALLOWED", Message: "not now", Proven: c.own, At: op.Call.IssuedAt.Add(c.when)}
		if op, _ = step(t, op, f, now, Booting); op.Failure != (Failure{}) {
			t.Errorf("%s: %+v before the deadline", name, op.Failure)
		}
		if op, _ = step(t, op, f, late, Failed); op.Failure != c.want {
			t.Errorf("%s: %+v, want %+v", name, op.Failure, c.want)
		}
	}
}

// TestFailureNamesTheBootError: the error's common part for two CVMs, without a refusal.
func TestFailureNamesTheBootError(t *testing.T) {
	op, now := to(t, Update, Booting)
	f := rebooting(now)
	f.Platform.InProgress, f.Platform.BootError = false, "volume vm-17 is busy"
	f.Refusal = &RefusalView{Code: "REVISION_NOT_ALLOWED", At: now}
	want := Failure{Cause: CauseBootError, Signature: "the CVM does not boot: volume # is busy"}
	if op, _ = step(t, op, f, now, Failed); op.Failure != want {
		t.Errorf("%+v, want %+v", op.Failure, want)
	}
}

func TestSignature(t *testing.T) {
	for text, want := range map[string]string{
		"volume vm-17f3 is busy since 12:03:04": "volume # is busy since #",
		"no  room":                              "no room",
		strings.Repeat("é", 100):                strings.Repeat("é", 60),
		"":                                      "",
	} {
		if got := Signature(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
