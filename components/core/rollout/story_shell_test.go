package rollout_test

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// coordinator is the leading coordinator's loop: it reads the records and the world, decides, records, and advances
// open Operations. When another coordinator leads, only the records remain.
type coordinator struct {
	// moves are the changes of Phase that the coordinator made. writes counts, by Operation, the passes that wrote it.
	moves  moves
	writes map[string]int
	w      *world
	check  *checker
	spec   group.Spec
	store  storyStore
	term   uint64
	// skew is how far the coordinator's clock is ahead of the world's.
	skew time.Duration
	took time.Time
	// heard are the last reports; answers are the platform's answers.
	heard    map[string]rollout.Report
	answers  map[string]operation.CallResult
	timing   rollout.Timing
	pause    *rollout.Override
	freeze   *rollout.Override
	drains   map[string]*rollout.Override
	protects map[string]*rollout.Override
	excludes map[string]*rollout.Override
	gates    map[string]*rollout.Override
	order    rollout.Order
	queue    *rollout.Queue
	// holdOverrides are the overrides of holds.
	holdOverrides map[string]*rollout.Override
	deleting      *rollout.Deletion
	givenUp       []string
	// refused are the Revisions that the platform would refuse, with its message.
	refused map[string]string
	// provisioning is the time before a call to another Revision.
	provisioning time.Duration
	// dies says when the coordinator dies: before or after its next call, or right after a completed step.
	dies string
	dead bool
	// gone: the group is deleted completely.
	gone bool
	// elapse advances the world while the coordinator waits.
	elapse func(time.Duration)
	plan   rollout.Plan
	log    func(format string, args ...any)
	note   func(subject, format string, args ...any)
}

const (
	// begunInAPass and passesInARow are the shell's own bounds.
	begunInAPass = 8
	passesInARow = 25
	// missedAfter is the age of a live Boot's last report at which the next report counts as missed.
	missedAfter = 6 * time.Second
	// endedKept bounds the ended Operations of each Slot.
	endedKept = 20
)

func (c *coordinator) clock() time.Time { return c.w.now.Add(c.skew) }

// working: an Operation is open.
func (c *coordinator) working() bool {
	for _, op := range c.store.operations {
		if !op.Phase.Ended() {
			return true
		}
	}
	return false
}

// next returns when the plan must be made again without any change, or end if that is sooner. The loss of a Slot's
// reports shows at three ages of the last report.
func (c *coordinator) next(end time.Time) time.Time {
	due := end
	at := func(when time.Time) {
		if when = when.Add(-c.skew); when.After(c.w.now) && when.Before(due) {
			due = when
		}
	}
	at(c.plan.Clock)
	for slot, r := range c.heard {
		if m := c.w.of(slot); m == nil || c.w.report(m) == nil {
			at(r.ReceivedAt.Add(missedAfter))
			at(r.ReceivedAt.Add(c.timing.StaleAfter + time.Millisecond))
			at(r.ReceivedAt.Add(c.timing.LostAfter + time.Millisecond))
		}
	}
	return due
}

// observe makes a complete observation, by the coordinator's clock.
func (c *coordinator) observe() rollout.Observation {
	obs := rollout.Observation{Platform: rollout.Source{Known: !c.w.blind}, Records: rollout.Source{Known: true}, At: c.clock(),
		Pause: c.pause, Freeze: c.freeze, Gates: maps.Clone(c.gates), HoldOverrides: maps.Clone(c.holdOverrides), Requests: slices.Clone(c.store.requests), Deletion: c.deleting, DeleteDisks: c.givenUp, Refused: c.refused}
	obs.Order, obs.Queue = c.order, c.queue
	obs.Nodes, obs.Others = slices.Clone(c.w.nodes), slices.Clone(c.w.others)
	for i, r := range obs.Requests {
		for _, op := range c.store.operations {
			obs.Requests[i].Spent = obs.Requests[i].Spent || op.Request.ID == r.ID
		}
	}
	obs.SilentNodes = slices.Sorted(maps.Keys(c.w.silent))
	if c.w.blind {
		obs.Platform.Silent = "the platform did not answer"
	}
	for _, m := range c.w.cvms {
		if r := c.w.report(m); r != nil {
			r.ReceivedAt = r.ReceivedAt.Add(c.skew) // BootAt is by the agent's own clock
			c.heard[m.slot] = *r
		}
	}
	for _, slot := range c.known() {
		obs.Slots = append(obs.Slots, c.look(slot))
	}
	return obs
}

// known are the Slots that have a record.
func (c *coordinator) known() []string { return slices.Sorted(maps.Keys(c.store.slots)) }

func (c *coordinator) look(slot string) rollout.SlotObservation {
	_, ordinal, _ := group.ParseSlot(slot)
	o := rollout.SlotObservation{Slot: slot, Ordinal: ordinal, Drain: c.drains[slot], Protection: c.protects[slot], Exclusion: c.excludes[slot]}
	bound := c.store.slots[slot].VMUUID
	if !c.w.blind {
		o.Instance, o.Duplicates = rollout.Filling(bound, c.w.listed(slot))
	}
	for _, m := range c.w.cvms {
		if m.slot != slot {
			continue
		}
		if a := m.admitted; a != nil && (bound == "" || m.uuid == bound || o.Admission == nil) {
			one := *a
			one.AdmittedAt = one.AdmittedAt.Add(c.skew)
			o.Admission = &one
		}
		if m.refusal != nil {
			one := *m.refusal
			one.At = one.At.Add(c.skew)
			o.Refusal = &one
		}
	}
	if r, ok := c.heard[slot]; ok && o.Admission != nil && r.BootID == o.Admission.BootID {
		o.Report = &r
	}
	return o
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// work runs passes until no work is left at this instant.
func (c *coordinator) work() {
	c.w.agents(c.orders)
	for range passesInARow {
		if !c.pass() || c.dead {
			return
		}
		c.w.agents(c.orders)
	}
	c.check.broke("the group does not come to rest: %d passes in a row wrote something", passesInARow)
}

// orders returns the order for a Slot's Boot, and the Revision at which that Boot must attest again.
func (c *coordinator) orders(slot, boot string) (order operation.Order, asked bool, refresh string) {
	of := c.of(slot)
	if len(of) > 0 && of[0].Way.Refreshes() && of[0].Phase == operation.Booting {
		refresh = of[0].To
	}
	order, asked = operation.OrderFor(slices.Values(of), boot)
	return order, asked, refresh
}

// of returns the Operations of a Slot, newest first.
func (c *coordinator) of(slot string) (out []operation.Operation) {
	for _, op := range c.store.operations {
		if op.Slot == slot {
			out = append(out, op)
		}
	}
	slices.SortFunc(out, func(a, b operation.Operation) int {
		return cmp.Or(cmp.Compare(btoi(!b.Phase.Ended()), btoi(!a.Phase.Ended())), cmp.Compare(b.Term, a.Term), b.Times.Created.Compare(a.Times.Created), cmp.Compare(b.Order, a.Order))
	})
	return out
}

// pass is one turn of the loop; again asks for an immediate next turn.
func (c *coordinator) pass() (again bool) {
	if c.ensureRevision() {
		return true
	}
	rec, obs, now := c.records(), c.observe(), c.clock()
	look := rollout.Evaluate(c.spec, rec, obs, now, c.timing)
	c.plan = look.Plan()
	c.check.plan(c.spec, rec, obs, now, c.timing, c.plan)
	if c.record(rec, now) {
		return true
	}
	c.tidy()
	for _, op := range rec.Operations {
		if !op.Phase.Ended() && c.step(look, op) {
			again = true
		}
		if c.dead {
			return false
		}
	}
	c.sweep()
	return again
}

// ensureRevision records the content of the spec's Revision.
func (c *coordinator) ensureRevision() bool {
	revision := c.spec.Revision()
	if _, known := c.store.revisions[revision]; known {
		return false
	}
	c.store.revisions[revision] = group.RevisionRecord{Digest: revision, Group: c.spec.Name, Template: c.spec.Template,
		AgentSpec: c.spec.AgentSpec(), ComposeHash: c.w.hashOf(c.spec.Template)}
	c.store.commits++
	return true
}

// recordNewSlots writes the missing records of Slots, before any step begins for them.
func (c *coordinator) recordNewSlots() (changed bool) {
	for _, slot := range c.plan.Slots {
		if _, known := c.store.slots[slot.Slot]; !known {
			c.store.slots[slot.Slot], changed = copied(slot), true
		}
	}
	return changed
}

// The coordinator logs the new states of Slots in no step.
func (c *coordinator) tell(before, after group.Status) {
	was := map[string]group.InstanceStatus{}
	for _, i := range before.Instances {
		was[i.Slot] = i
	}
	for _, i := range after.Instances {
		if old := was[i.Slot]; old.State != i.State && i.Operation == "" && old.Operation == "" && (old.State != "" || i.State != "Missing") {
			reason := i.Reason
			if i.State == "Available" {
				reason = ""
			}
			c.log("%s is %s%s", i.Slot, i.State, because(reason))
		}
	}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// stillText returns a text without its figures, so that a text whose figures alone changed is written once.
func stillText(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}

func arrow(w *world, op operation.Operation) string {
	if op.To == "" {
		return ""
	}
	return " to " + w.name(op.To)
}

// step advances one Operation as far as possible, and writes it once.
func (c *coordinator) step(look *rollout.Pass, op operation.Operation) bool {
	var facts operation.Facts
	way, effects, err := operation.Carry(op, c.clock, func(at operation.Operation) (operation.Facts, error) {
		facts = look.Facts(at)
		facts.Term = c.term
		if answer, ok := c.answers[at.ID]; ok {
			facts.Call = &answer
		}
		c.prepare(at)
		facts.TakenOver(at, c.took, c.clock(), c.timing.MaxCallTimeout)
		return facts, nil
	})
	if err != nil {
		panic(err) // none of the above can fail
	}
	next := way[len(way)-1]
	if len(effects) == 0 && stillText(op.Reason) == stillText(next.Reason) {
		next.Reason = op.Reason
	}
	if operation.Same(op, next) {
		return false
	}
	c.writes[op.ID]++
	for _, at := range append(way[:len(way)-1:len(way)-1], next) {
		c.moves.made(c.store.operations[op.ID].Phase, at.Phase)
		c.keep(at)
	}
	record := c.store.slots[next.Slot]
	record.OwnEnv, record.Heals = next.OwnEnvAfter(record.OwnEnv), next.HealsAfter(record.Heals)
	record.WasAvailableAt = next.WasAvailableAfter(record.WasAvailableAt)
	if record.Assigned = next.AssignedAfter(record.Assigned); record.Slot != "" {
		c.store.slots[next.Slot] = record
	}
	c.store.commits++
	if next.Phase == operation.Done && c.dies == "done" {
		c.log("the coordinator dies")
		c.dead, c.dies = true, ""
		return true
	}
	if facts.Call != nil && next.Call.Outcome != "" || next.Phase.Ended() {
		delete(c.answers, op.ID)
	}
	for _, e := range effects {
		if e.Kind == operation.CallPlatform {
			c.call(next, e)
		}
	}
	return true
}

// lookAgain observes right before the call, after all slow work.
func (c *coordinator) lookAgain(op operation.Operation) operation.Facts {
	return rollout.FactsFor(c.spec, c.records(), c.observe(), c.clock(), c.timing, op)
}

func (c *coordinator) call(op operation.Operation, e operation.Effect) {
	if c.dies == "before" {
		c.log("the coordinator dies before its call for %s", op.Slot)
		c.dead, c.dies = true, ""
		return
	}
	c.w.startEarly(e.Call, op.Slot, false)
	seen := c.lookAgain(op)
	if reason, ok := operation.MayCall(op, seen); !ok {
		c.answers[op.ID] = operation.CallResult{Number: e.Number, Outcome: operation.OutcomeNotMade, Message: reason}
		c.note(string(op.Kind)+" of "+op.Slot, "call %d is not made", e.Number)
		return
	}
	c.check.called(op, e)
	c.w.force, c.w.chosen, c.w.notOn, c.w.ownSize = e.Force, op.Call.Node, seen.NotOn, op.Call.OwnInstanceType
	if own := c.w.ownSize; own != "" && e.Shape.InstanceType != "" && e.Shape.InstanceType != own {
		c.check.broke("%s is given the size %s, and its own is %s", op.Slot, e.Shape.InstanceType, own)
	}
	if e.Call == operation.PartCreate {
		c.check.placed(op)
	}
	how := string(e.Call)
	if e.Force {
		how = "forced " + how
	}
	env := c.envOf(op)
	result, took := c.w.call(e.Call, op.Slot, e.VMUUID, op.To, func() {
		c.check.effective(op, e)
		if e.Call == operation.PartCompose || e.Call == operation.PartCreate {
			c.w.told[op.Slot] = env
		}
	})
	result.Number = e.Number
	c.note(string(op.Kind)+" of "+op.Slot, "call %d (%s) %s%s", e.Number, how, result.Outcome, because(result.Message))
	if took > 0 {
		c.elapse(took)
	}
	if c.dies == "after" {
		c.log("the coordinator dies before it hears the answer for %s", op.Slot)
		c.dead, c.dies = true, ""
		return
	}
	c.answers[op.ID] = result
}

// sweep removes ended Operations beyond the limit.
func (c *coordinator) sweep() {
	bySlot := map[string][]operation.Operation{}
	for _, op := range c.store.operations {
		if op.Phase.Ended() {
			bySlot[op.Slot] = append(bySlot[op.Slot], op)
		}
	}
	for slot, ops := range bySlot {
		slices.SortFunc(ops, func(a, b operation.Operation) int {
			return cmp.Or(cmp.Compare(b.Term, a.Term), cmp.Compare(b.Order, a.Order))
		})
		kept := endedKept
		if _, known := c.store.slots[slot]; !known {
			kept = 0
		}
		for _, op := range ops[min(kept, len(ops)):] {
			delete(c.store.operations, op.ID)
		}
	}
}

// envOf returns the env that a call for op gives to its CVM.
func (c *coordinator) envOf(op operation.Operation) map[string]string {
	_, ordinal, err := group.ParseSlot(op.Slot)
	if err != nil {
		panic(err)
	}
	return c.spec.EnvOf(ordinal, c.w.contents[op.To])
}
