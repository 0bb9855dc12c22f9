package rollout_test

import (
	"fmt"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	"cadre.dev/core/window"
	"pgregory.net/rapid"
)

// window adds a window to the spec: "[DAYS] FROM to TO in ZONE [except DATES]"; "none" removes all.
func (s *story) window(text string) error {
	p := &s.c.spec.UpdatePolicy
	if text == "none" {
		p.Windows = nil
		return nil
	}
	rest, except, _ := strings.Cut(text, " except ")
	hours, zone, _ := strings.Cut(rest, " in ")
	words := strings.Fields(hours)
	if len(words) < 3 {
		return fmt.Errorf("%q names no window", text)
	}
	n := len(words) - 3
	p.Windows = append(p.Windows, window.Window{Days: words[:n], From: words[n], To: words[n+2], Zone: zone, Except: strings.Fields(except)})
	return group.Validate(s.c.spec)
}

// inWindow checks R97 for a step that begins: while the leader's clock shows no time of a window, no step of the rollout
// takes a member that is available.
func (k *checker) inWindow(a rollout.Action, op operation.Operation) {
	if op.Kind != operation.Update || op.Actor != operation.ActorRollout || a.Class < rollout.ClassAtFailed || a.Retarget != nil || k.c.deleting != nil {
		return
	}
	if now := k.c.clock(); !overrides(op, rollout.HoldOutsideWindow) && !k.c.spec.UpdatePolicy.Windows.Open(now) {
		k.broke("R97: %s begins at %s, outside of all windows", op.ID, now)
	}
}

// drawWindows gives some runs of the property test a window that opens for minutes.
func (s *story) drawWindows(t *rapid.T) {
	if rapid.IntRange(0, 4).Draw(t, "window") == 0 {
		s.one(t, "operator sets window 12:05 to 12:25 in UTC")
		s.one(t, "operator sets window 18:45 to 20:30 in Asia/Kathmandu")
	}
}
