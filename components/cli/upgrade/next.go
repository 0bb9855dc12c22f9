package upgrade

import (
	"cmp"
	"fmt"
	"slices"
)

// Action is the kind of a step.
type Action string

const (
	// Done: every coordinator has the wanted content and is well.
	Done Action = "done"
	// Wait: no step is allowed now, and time may change that.
	Wait Action = "wait"
	// Stop: no step is allowed, and only a person can change that.
	Stop Action = "stop"
	// StepDown: Slot gives up the Lease and the leadership of Raft, which goes to To.
	StepDown Action = "step down"
	// Change: Slot gets the wanted content. Its CVM boots again on its disk.
	Change Action = "change"
	// Start: the CVM of Slot has the wanted content and is down.
	Start Action = "start"
)

// Step is one decision.
type Step struct {
	Action Action `json:"action"`
	Slot   string `json:"slot,omitempty"`
	To     string `json:"to,omitempty"`
	// Reasons are the changes of a Change, and why no step is allowed of a Wait or a Stop.
	Reasons []string `json:"reasons,omitempty"`
}

// Next decides on the next step. It disrupts a coordinator only while all others are well.
func Next(f Facts) Step {
	if missing := f.missing(); len(missing) > 0 {
		return Step{Action: Stop, Slot: missing[0].Slot, Reasons: f.Unwell(missing[0])}
	}
	if len(f.OtherServers) > 0 {
		return Step{Action: Wait, Reasons: []string{fmt.Sprintf("Consul has servers that belong to no coordinator: %q", f.OtherServers)}}
	}
	var bad []Coordinator
	var reasons []string
	for _, c := range f.Coordinators {
		if why := f.Unwell(c); len(why) > 0 {
			bad, reasons = append(bad, c), append(reasons, why...)
		}
	}
	switch len(bad) {
	case 0:
		return f.ofAllWell()
	case 1:
		return f.ofOneUnwell(bad[0], reasons)
	}
	return Step{Action: Wait, Reasons: reasons}
}

// missing are the coordinators without a CVM.
func (f Facts) missing() []Coordinator {
	return slices.DeleteFunc(slices.Clone(f.Coordinators), func(c Coordinator) bool { return c.Exists })
}

// ofAllWell takes the first follower that differs, the leader of Raft after the others, and then the
// leader.
func (f Facts) ofAllWell() Step {
	if f.Leader == "" {
		return Step{Action: Wait, Reasons: []string{"no coordinator holds the lease"}}
	}
	differing := slices.DeleteFunc(slices.Clone(f.Coordinators), func(c Coordinator) bool { return len(c.Is.Changes(f.Wanted)) == 0 })
	if len(differing) == 0 {
		return Step{Action: Done}
	}
	slices.SortStableFunc(differing, func(a, b Coordinator) int { return cmp.Compare(f.lateness(a), f.lateness(b)) })
	return f.change(differing[0])
}

func (f Facts) lateness(c Coordinator) int {
	switch c.Slot {
	case f.Leader:
		return 2
	case f.RaftLeader:
		return 1
	}
	return 0
}

// ofOneUnwell changes the only coordinator that is unwell, if it is the one to change: that is how an
// upgrade continues past a broken version, and how the old version comes back.
func (f Facts) ofOneUnwell(c Coordinator, reasons []string) Step {
	underWay := !c.Running && !c.StaysDown
	same := len(c.Is.Changes(f.Wanted)) == 0
	switch {
	case underWay || c.Changing:
		return Step{Action: Wait, Slot: c.Slot, Reasons: reasons}
	case same && c.StaysDown && c.BootError == "":
		return Step{Action: Start, Slot: c.Slot, Reasons: reasons}
	case same:
		return Step{Action: Wait, Slot: c.Slot, Reasons: reasons}
	}
	return f.change(c)
}

// change changes c, after c stepped down. An older version cannot step down; the clean stop of its CVM
// releases the Lease too.
func (f Facts) change(c Coordinator) Step {
	leads := c.Answers && !c.Older && (c.Slot == f.Leader || c.Slot == f.RaftLeader)
	if leads && len(f.Coordinators) > 1 {
		return Step{Action: StepDown, Slot: c.Slot, To: f.successor(c)}
	}
	return Step{Action: Change, Slot: c.Slot, Reasons: c.Is.Changes(f.Wanted)}
}

// successor is to lead Raft after c: the holder of the Lease, so that one machine has both, or else
// the first that need not change.
func (f Facts) successor(c Coordinator) string {
	to := ""
	for _, other := range f.Coordinators {
		switch {
		case other.Slot == c.Slot:
		case other.Slot == f.Leader:
			return other.Slot
		case to == "" || len(other.Is.Changes(f.Wanted)) == 0:
			to = other.Slot
		}
	}
	return to
}

// Plan lists the steps to the wanted content, if each step has its effect. It ends with Done, or with
// the Wait or Stop that comes first.
func Plan(f Facts) (steps []Step) {
	f.Coordinators = slices.Clone(f.Coordinators)
	for range 4*len(f.Coordinators) + 1 {
		step := Next(f)
		steps = append(steps, step)
		i := slices.IndexFunc(f.Coordinators, func(c Coordinator) bool { return c.Slot == step.Slot })
		switch step.Action {
		case Done, Wait, Stop:
			return steps
		case StepDown:
			f.RaftLeader = step.To
			if f.Leader == step.Slot {
				f.Leader = step.To
			}
		case Change, Start:
			f.well(i)
		}
	}
	return steps
}

// well gives coordinator i the wanted content, and all that makes it well.
func (f Facts) well(i int) {
	c := &f.Coordinators[i]
	most, others := 0, []string{}
	for _, other := range f.Coordinators {
		if most = max(most, other.Sessions); other.Slot != c.Slot {
			others = append(others, other.Slot)
		}
	}
	*c = Coordinator{Slot: c.Slot, Exists: true, Status: "running", Running: true, Answers: true, Voter: true, Healthy: true,
		Is: f.Wanted, Proven: f.Wanted.ComposeHash, Sessions: most, Connected: others}
}

// MayReplace lists why the coordinator of a Slot must not be replaced by one with an empty disk; nil:
// it may be.
func MayReplace(f Facts, slot string) (reasons []string) {
	at := slices.IndexFunc(f.Coordinators, func(c Coordinator) bool { return c.Slot == slot })
	switch {
	case at < 0:
		return []string{fmt.Sprintf("the cluster has no coordinator %q", slot)}
	case len(f.Coordinators) == 1:
		return []string{slot + " is the only coordinator: the records of the cluster are on its disk"}
	case len(f.Unwell(f.Coordinators[at])) == 0:
		return []string{slot + " is well: its disk need not be lost. An upgrade, or a restart on the platform, keeps the disk"}
	}
	return MayGoOn(f, slot)
}

// MayGoOn is MayReplace for a replacement that was begun: the coordinator may be well by now, or gone.
func MayGoOn(f Facts, slot string) (reasons []string) {
	for _, c := range f.Coordinators {
		if c.Slot == slot {
			continue
		}
		reasons = append(reasons, f.Unwell(c)...)
		if c.Is.ComposeHash != "" && c.Is.ComposeHash != f.Wanted.ComposeHash {
			reasons = append(reasons, fmt.Sprintf("%s runs compose hash %s, and the file gives %s: use the file that the coordinators run, and upgrade later",
				c.Slot, short(c.Is.ComposeHash), short(f.Wanted.ComposeHash)))
		}
	}
	return reasons
}
