package render

import (
	"fmt"
	"strings"

	"cadre.dev/cli/genesis"
	"cadre.dev/cli/upgrade"
	"cadre.dev/client/format"
)

// Upgrade prints the coordinators, the steps that an upgrade would take, and its needs.
func Upgrade(s Style, p genesis.UpgradePlan) string {
	text := Coordinators(s, p.Facts) + fmt.Sprintf("\nthe file gives compose hash %s\n", p.Facts.Wanted.ComposeHash)
	if p.NewHash {
		text += "the context gets this hash first; other contexts of the cluster need it too\n"
	}
	if p.TrustChanges {
		text += "the trust block changes, for the coordinators and this context; each group gets it with its next apply\n"
	}
	if p.KMSAllow != "" {
		text += "the key service must allow this hash first; then repeat the command with --kms-allows\n"
	}
	if len(p.Pinned) > 0 {
		text += s.Paint("members of these groups would not accept the changed coordinators:", Bad) + "\n"
		for _, why := range p.Pinned {
			text += "  " + why + "\n"
		}
	}
	text += "\n"
	for n, step := range p.Steps {
		text += s.stepLine(n+1, step)
	}
	return text
}

func (s Style) stepLine(n int, step upgrade.Step) string {
	switch step.Action {
	case upgrade.Done:
		if n == 1 {
			return s.Paint("all coordinators are as the file says: nothing is to be changed", Good) + "\n"
		}
		return ""
	case upgrade.Wait:
		return s.Paint("the next step waits: "+strings.Join(step.Reasons, "; "), Warn) + "\n"
	case upgrade.Stop:
		return s.Paint("no step is possible: "+strings.Join(step.Reasons, "; "), Bad) + "\n" +
			"a coordinator whose CVM is lost is made again by `cadre cluster replace`\n"
	case upgrade.StepDown:
		return fmt.Sprintf("%d. %s steps down; %s is to lead Consul\n", n, step.Slot, step.To)
	case upgrade.Start:
		return fmt.Sprintf("%d. start %s\n", n, step.Slot)
	case upgrade.Change:
		return fmt.Sprintf("%d. change %s: %s\n", n, step.Slot, strings.Join(step.Reasons, ", "))
	}
	return ""
}

// Coordinators prints each coordinator, and why it is unwell.
func Coordinators(s Style, f upgrade.Facts) string {
	rows := [][]Cell{}
	for _, c := range f.Coordinators {
		role := []string{}
		if c.Slot == f.Leader {
			role = append(role, "leader")
		}
		if c.Slot == f.RaftLeader {
			role = append(role, "Consul leader")
		}
		well := T("well", Good)
		if why := f.Unwell(c); len(why) > 0 {
			for i := range why {
				why[i] = strings.TrimPrefix(why[i], c.Slot+" ")
			}
			well = T(strings.Join(why, "; "), Bad)
		}
		rows = append(rows, []Cell{C(c.Slot), C(c.Status), C(format.Short(c.Is.ComposeHash)), C(c.Version), C(strings.Join(role, ", ")), C(fmt.Sprint(c.Sessions)), well})
	}
	return s.Table([]string{"COORDINATOR", "CVM", "COMPOSE", "VERSION", "ROLE", "MEMBERS", "STATE"}, rows)
}

// CoordinatorReplacement prints the losses of a coordinator's replacement, or the reasons of its refusal.
func CoordinatorReplacement(slot, vmUUID string, against []string) string {
	if len(against) > 0 {
		return fmt.Sprintf("\n%s is not replaced:\n  %s\n", slot, strings.Join(against, "\n  "))
	}
	if vmUUID == "" {
		return fmt.Sprintf("\n%s has no CVM: its vote is removed, and its CVM is made again with an empty disk\n", slot)
	}
	return fmt.Sprintf("\nCVM %s and its disk are deleted, after the vote of %s is removed; the new one starts with an empty disk\n", vmUUID, slot)
}
