package collateral

import (
	"testing"
	"time"

	"cadre.dev/core/policy"
)

// The documents without their signature: Intel's signed documents are not hostile, but the parser
// must be safe without that protection.

func FuzzINP09_TCBInfo(f *testing.F) {
	f.Add(`{"id":"TDX","version":3,"issueDate":"2026-06-01T00:00:00Z","nextUpdate":"2026-07-01T00:00:00Z","fmspc":"50806f000000","pceId":"0000","tcbType":0,"tcbEvaluationDataNumber":15,"tdxModule":{"mrsigner":"","attributes":"","attributesMask":""},"tcbLevels":[{"tcb":{"sgxtcbcomponents":[{"svn":5}],"pcesvn":11,"tdxtcbcomponents":[]},"tcbStatus":"UpToDate"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		info, err := readTCBInfo([]byte(text))
		if err != nil {
			return
		}
		for _, l := range info.Levels {
			if len(l.TCB.SGX) != componentCount || len(l.TCB.TDX) != componentCount || !l.Status.known() {
				t.Errorf("accepted level %+v", l)
			}
		}
		s := &Set{tcb: info}
		_, _ = s.platformLevel(Machine{TDX: [16]uint8{7, 1}})
		_, _ = s.moduleLevel(Machine{TDX: [16]uint8{7, 1}})
		_, _ = s.moduleLevel(Machine{})
	})
}

func FuzzINP09_QEIdentity(f *testing.F) {
	f.Add(`{"id":"TD_QE","version":2,"issueDate":"2026-06-01T00:00:00Z","nextUpdate":"2026-07-01T00:00:00Z","tcbEvaluationDataNumber":15,"miscselect":"00000000","miscselectMask":"FFFFFFFF","attributes":"11000000000000000000000000000000","attributesMask":"FBFFFFFFFFFFFFFF0000000000000000","mrsigner":"DC9E2A7C6F948F17474E34A7FC43ED030F7C1563F1BABDDF6340C82E0E54A8C5","isvprodid":2,"tcbLevels":[{"tcb":{"isvsvn":4},"tcbStatus":"UpToDate"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		qe, err := readQEIdentity([]byte(text))
		if err != nil {
			return
		}
		if l, err := (&Set{qe: qe}).enclaveLevel(Enclave{}); err == nil && !l.status.known() {
			t.Errorf("status %q", l.status)
		}
	})
}

func TestWorstIsNeverBetterThanAnyOfThem(t *testing.T) {
	for a := range complaints {
		for b := range complaints {
			got := worst(a, b)
			if missing := (complaints[a] | complaints[b]) &^ complaints[got]; missing != 0 && got != Revoked && missing&^needsHardening != 0 {
				t.Errorf("worst(%s, %s) = %s forgets something", a, b, got)
			}
			if got != worst(b, a) {
				t.Errorf("worst(%s, %s) depends on the order", a, b)
			}
		}
		if worst(a, "") != Revoked || worst(a, "Fine") != Revoked {
			t.Errorf("an unknown status next to %s is not the worst", a)
		}
	}
}

func TestMarksJudgeRollbackAndClock(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	high := policy.CollateralWatermark{FMSPC: "a", TCBEvaluation: 5, QEEvaluation: 5, IssuedAt: now}
	for _, c := range []struct {
		tcb, qe uint32
		at      time.Time
		good    bool
	}{{5, 5, now, true}, {6, 6, now, true}, {4, 6, now, false}, {6, 4, now, false}, {5, 5, now.Add(-time.Hour), false}, {5, 5, now.Add(-time.Minute), true}} {
		err := CheckMark(policy.CollateralWatermark{TCBEvaluation: c.tcb, QEEvaluation: c.qe}, high, c.at)
		if (err == nil) != c.good {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
