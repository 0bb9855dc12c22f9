package dashboard

import (
	"strings"
	"time"

	"cadre.dev/client/format"
	"cadre.dev/core/group"
)

type slotRow struct {
	Slot, Path, Role, Revision, Node, Why string
	Leads                                 bool
	State, Health                         mark
	Phase                                 string
	Since                                 time.Time
	Holds                                 []string
}

type slotsModel struct {
	Rows  []slotRow
	Pager pager
	// Nodes: the platform named the nodes of the CVMs.
	Nodes bool
}

// slotsOf makes one page of the slots that pass the filter. nodes has the node of each slot.
func slotsOf(name string, list []group.InstanceStatus, nodes map[string]string, f filter) slotsModel {
	var chosen []group.InstanceStatus
	for _, i := range list {
		if inState(i, f.State) && f.matches(i.Slot, i.Role, i.Health, string(i.State), i.Observed, i.Assigned, i.Phase, nodes[i.Slot], i.InstanceID, i.VMUUID, format.Why(i)) {
			chosen = append(chosen, i)
		}
	}
	page, pager := paged(chosen, f, groupPath(name))
	m := slotsModel{Pager: pager, Nodes: len(nodes) > 0}
	for _, i := range page {
		m.Rows = append(m.Rows, slotOf(i, nodes))
	}
	return m
}

func slotOf(i group.InstanceStatus, nodes map[string]string) slotRow {
	row := slotRow{
		Slot: format.Slot(i.Slot, i.Extra), Path: slotPath(i.Slot), Role: format.Role(i), Leads: leads(i), Revision: format.Arrow(i.Observed, i.Assigned), Node: nodes[i.Slot],
		Why: format.Why(i), State: stateMark(i), Health: healthMark(i.Health), Phase: strings.ToLower(i.Phase), Since: sinceOf(i.Since),
	}
	for _, o := range []struct {
		word string
		on   *group.Override
	}{{"out of service", i.Drain}, {"protected", i.Protection}} {
		if o.on != nil {
			row.Holds = append(row.Holds, o.word+": "+o.on.Reason)
		}
	}
	for _, h := range i.Holds {
		row.Holds = append(row.Holds, h.Predicate+": "+h.Message)
	}
	return row
}

func leads(i group.InstanceStatus) bool { return i.Role == "leader" || i.Role == "primary" }

// The choices of the filter of slots.
const (
	slotsNeedAttention = "attention"
	slotsInStep        = "step"
	slotsOverridden    = "override"
)

func slotChoices(chosen string) []choice {
	return choices(chosen, "", "All slots", slotsNeedAttention, "Needs attention", slotsInStep, "In a step", slotsOverridden, "With an override")
}

func inState(i group.InstanceStatus, state string) bool {
	switch state {
	case slotsNeedAttention:
		return i.State != group.SlotAvailable
	case slotsInStep:
		return i.Phase != "" || i.Operation != ""
	case slotsOverridden:
		return i.Drain != nil || i.Protection != nil || i.Exclusion != nil
	}
	return true
}
