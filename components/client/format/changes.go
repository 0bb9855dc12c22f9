package format

import (
	"fmt"
	"strings"

	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// Changes returns one plain line for each change in next, for logs and pipes. prev is nil for the
// first view.
func Changes(prev *client.View, next client.View) []string {
	out := []string{}
	old := group.Status{}
	if prev != nil {
		old = prev.Status
	}
	now := next.Status
	if prev == nil || old.RolloutState != now.RolloutState || old.Target != now.Target || old.Updated != now.Updated || old.Available != now.Available {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s: %s revision %s, %d/%d updated, %d/%d available",
			now.Group, orWord(now.RolloutState, "no rollout"), orWord(Way(next), "none"), now.Updated, now.Replicas, now.Available, now.Replicas)))
	}
	if r := next.Plan.Rollout; r != nil && r.State == operation.RollingBack && prev != nil && old.RolloutState != now.RolloutState {
		out = append(out, now.Group+": "+OneLine(r.Reason)) // the message is about the first slot by then
	}
	said := false // the message is about a Slot whose line has its reason already
	before := map[string]group.InstanceStatus{}
	for _, i := range old.Instances {
		before[i.Slot] = i
	}
	for _, i := range now.Instances {
		was, known := before[i.Slot]
		if known && was.State == i.State && was.Phase == i.Phase && was.Health == i.Health && was.Role == i.Role &&
			was.Observed == i.Observed && was.LastRefusal == i.LastRefusal || known && slotLine(was) == slotLine(i) {
			continue
		}
		out = append(out, slotLine(i))
		said = said || strings.Contains(now.Message, i.Slot) && Why(i) != ""
	}
	// A message that only counts seconds down is no change.
	if now.Message != "" && !said && (prev == nil || withoutDigits(old.Message) != withoutDigits(now.Message)) {
		out = append(out, now.Group+": "+OneLine(now.Message))
	}
	return out
}

func withoutDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s)
}

func slotLine(i group.InstanceStatus) string {
	text := fmt.Sprintf("%s: %s, %s", Slot(i.Slot, i.Extra), i.State, i.Health)
	if r := Role(i); r != "" && r != "unknown" { // the word after the state is the health
		text += ", " + r
	}
	if rev := Arrow(i.Observed, i.Assigned); rev != "" {
		text += ", revision " + rev
	}
	if i.Phase != "" {
		text += ", " + strings.ToLower(i.Phase)
	}
	if w := Why(i); w != "" {
		text += ": " + w
	}
	return OneLine(text)
}
