package plan

import (
	"maps"
	"slices"
)

// Shorter are plans with one thing less than p, the largest steps first. A shorter plan that fails
// like p is easier to understand.
func Shorter(p Plan) []Plan {
	var out []Plan
	with := func(change func(*Plan)) {
		less := p
		less.Groups, less.Faults, less.Moves = slices.Clone(p.Groups), slices.Clone(p.Faults), slices.Clone(p.Moves)
		change(&less)
		out = append(out, less)
	}
	if len(p.Faults) > 1 {
		with(func(q *Plan) { q.Faults = nil })
	}
	if p.Odds != (Odds{}) {
		with(func(q *Plan) { q.Odds = Odds{} })
	}
	if p.StopFirst {
		with(func(q *Plan) { q.StopFirst = false })
	}
	for i := range p.Faults {
		with(func(q *Plan) { q.Faults = slices.Delete(q.Faults, i, i+1) })
	}
	for _, g := range p.Groups {
		if len(p.Groups) > 1 {
			with(func(q *Plan) { q.drop(g.Name) })
		}
	}
	for i := range p.Limits {
		with(func(q *Plan) { q.Limits = slices.Delete(slices.Clone(p.Limits), i, i+1) })
	}
	for i := range p.CrashPoints {
		with(func(q *Plan) { q.CrashPoints = slices.Delete(slices.Clone(p.CrashPoints), i, i+1) })
	}
	for i, m := range p.Moves {
		if m.At == 0 {
			continue // it makes a group
		}
		with(func(q *Plan) { q.Moves = slices.Delete(q.Moves, i, i+1) })
	}
	for i, m := range p.Moves {
		if len(m.Without) > 0 {
			with(func(q *Plan) { q.Moves[i].Without = nil })
		}
		if m.Checks != OneCheck {
			with(func(q *Plan) { q.Moves[i].Checks = OneCheck })
		}
		for j, one := range m.words() {
			if *one.text != "" {
				with(func(q *Plan) { *q.Moves[i].words()[j].text = "" })
			}
		}
		if m.Partition > 0 {
			with(func(q *Plan) { q.Moves[i].Partition = 0 })
		}
		if m.Opportunistic {
			with(func(q *Plan) { q.Moves[i].Opportunistic = false })
		}
		if m.Window != "" {
			with(func(q *Plan) { q.Moves[i].Window = "" })
		}
		if m.GiveUp {
			with(func(q *Plan) { q.Moves[i].GiveUp = false })
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Odds.named())) {
		if *p.Odds.named()[name] != 0 {
			with(func(q *Plan) { *q.Odds.named()[name] = 0 })
		}
	}
	for i, one := range p.Takes.named() {
		if *one.most != 0 {
			with(func(q *Plan) { *q.Takes.named()[i].most = 0 })
		}
	}
	for i, g := range p.Groups {
		if g.Healing != Unhealed {
			with(func(q *Plan) { q.Groups[i].Healing, q.Groups[i].Service = Unhealed, false })
		}
		if g.Surge > 0 {
			with(func(q *Plan) { q.Groups[i].Surge = 0 })
		}
		if g.Service {
			with(func(q *Plan) { q.Groups[i].Service = false })
		}
		if g.Hook != Unhooked {
			with(func(q *Plan) { q.Groups[i].Hook = Unhooked })
		}
		if g.Percent > 0 {
			with(func(q *Plan) { q.Groups[i].Percent = 0 })
		}
		if g.Deadline > 0 {
			with(func(q *Plan) { q.Groups[i].Deadline = 0 })
		}
		if g.Rollback {
			with(func(q *Plan) { q.Groups[i].Rollback = false })
		}
		if g.MinReady > 0 {
			with(func(q *Plan) { q.Groups[i].MinReady = 0 })
		}
		if g.Approval > 0 {
			with(func(q *Plan) { q.Groups[i].Approval = 0 })
		}
		for n, one := range g.named() {
			if *one.most > 0 {
				with(func(q *Plan) { *q.Groups[i].Stages.named()[n].most = 0 })
			}
		}
		if g.Order != (Order{}) {
			with(func(q *Plan) { q.Groups[i].Order = Order{} })
		}
		if g.Choices != (Choices{}) {
			with(func(q *Plan) { q.Groups[i].Choices = Choices{} })
		}
		if g.Gate != (Gate{}) {
			with(func(q *Plan) { q.Groups[i].Gate = Gate{} })
		}
		if g.Launch != Unhooked {
			with(func(q *Plan) { q.Groups[i].Launch = Unhooked })
		}
	}
	if p.Coordinators > 1 {
		with(func(q *Plan) {
			q.Coordinators = 1
			q.Faults = slices.DeleteFunc(q.Faults, func(f Fault) bool { return f.ofCoordinator() && f.Target != Coordinator(0) && f.Target != All })
		})
	}
	return out
}

// drop removes a group and all its events.
func (p *Plan) drop(group string) {
	p.Groups = slices.DeleteFunc(p.Groups, func(g Group) bool { return g.Name == group })
	for i, g := range p.Groups {
		if g.After == group {
			p.Groups[i].After = ""
		}
	}
	p.Moves = slices.DeleteFunc(p.Moves, func(m Move) bool { return m.Group == group })
	p.Faults = slices.DeleteFunc(p.Faults, func(f Fault) bool { return f.group() == group })
}

// ofMember, ofAll, ofGroup and ofCoordinator report the kind of the fault's target.
func (f Fault) ofMember() bool {
	return slices.Contains([]FaultKind{Mute, Sicken, Hang, AgentCrash, AgentCrashAt, Reboot, Halt, Lose, Drain, Protect, Exclude, ExcludeRollout, ExcludeHealing, AskRestart, AskReplace}, f.Kind)
}

func (f Fault) ofAll() bool {
	return slices.Contains([]FaultKind{Split, Freeze, Expire, Refuse, Hide, Resolve}, f.Kind)
}

func (f Fault) ofGroup() bool {
	return slices.Contains([]FaultKind{FreezeGroup, Pause, Delete, Remake, Spare, Retry, Undo, Shut}, f.Kind) || slices.Contains(gates, f.Kind) || slices.Contains(passes, f.Kind)
}

func (f Fault) ofCoordinator() bool { return !f.ofMember() && !f.ofAll() && !f.ofGroup() }

// group that the fault affects, or a member of it; "" where it affects no single group.
func (f Fault) group() string {
	switch {
	case f.ofMember():
		return GroupOf(f.Target)
	case f.ofGroup():
		return f.Target
	}
	return ""
}
