package world

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/coordinator/simulated"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	"cadre.dev/simulator/plan"
	"cadre.dev/simulator/trace"
	"cadre.dev/store"
)

// restEvery paces the checks whether the cluster is settled.
const restEvery = 5 * time.Second

// restAfter is the wait after all faults end: by then every status reflects the last events.
const restAfter = 20 * time.Second

// spec is the operator's spec for a move.
func (w *World) spec(m plan.Move) group.Spec {
	g := w.group(m.Group)
	ready := int(cmp.Or(g.MinReady, 2*time.Second) / time.Second)
	s := group.Spec{
		Name: m.Group, Platform: "phala", Replicas: m.Replicas, ManagementPolicy: group.Parallel,
		Template: group.Template{
			Compose:      compose(g, m.Release),
			InstanceType: cmp.Or(m.Size, "tdx.small"), OSImage: cmp.Or(m.Image, "dstack-0.5.7"),
		},
		UpdatePolicy: group.UpdatePolicy{MinReadySeconds: &ready},
		Workload:     group.Workload{Kind: g.Workload}, Without: m.Without,
	}
	if g.Percent > 0 {
		s.UpdatePolicy.MaxUnavailablePercent = &g.Percent
	}
	s.UpdatePolicy.HealthyDeadline = group.Duration(g.Deadline)
	w.keepBack(&s, m)
	if surge, none := g.Surge, 0; surge > 0 {
		if m.Replicas == 1 && group.HasVoters(s) {
			surge = max(surge, 2) // of two voters none can be spared
		}
		s.UpdatePolicy.MaxSurgeFixed, s.UpdatePolicy.MaxUnavailableFixed = &surge, &none
	}
	if group.HasVoters(s) && m.Replicas == 2 {
		s.UpdatePolicy.Interruption = group.InterruptionAllow // else such a group is refused
	}
	if g.Healing != plan.Unhealed {
		delay := 10
		s.AutoHealing = &group.AutoHealing{InitialDelaySec: &delay, Replace: g.Healing}
		if g.Service && group.HasDriver(s) { // else no driver reports a down service, and the spec is refused
			s.AutoHealing.Service = m.Group
		}
	}
	if g.Hook != plan.Unhooked {
		s.LifecycleHooks = []group.LifecycleHook{{
			Name: "drain", Transition: group.PreTerminate, Exec: &group.ExecAction{Service: m.Group, Command: "drain"},
			MaxDuration: group.Duration(hookLimit), DefaultResult: group.HookResult(strings.ToUpper(g.Hook)),
		}}
	}
	if g.Launch != plan.Unhooked {
		s.LifecycleHooks = append(s.LifecycleHooks, group.LifecycleHook{
			Name: launch, Transition: group.PostLaunch, Exec: &group.ExecAction{Service: m.Group, Command: launch},
			MaxDuration: group.Duration(hookLimit), DefaultResult: group.HookResult(strings.ToUpper(g.Launch)),
		})
	}
	switch {
	case m.Opportunistic:
		s.UpdatePolicy.Type = group.Opportunistic
	case g.Rollback:
		s.UpdatePolicy.OnFailure = group.Rollback
	}
	s.UpdatePolicy.RequireApproval = g.Approval > 0
	s.UpdatePolicy.Bake = group.Duration(g.Bake)
	if g.Stage > 0 && !m.Opportunistic {
		stage := group.Stage{Slots: 1, Bake: group.Duration(g.Stage)}
		if g.Promote > 0 {
			stage.Promote = group.PromoteAsk
		}
		s.UpdatePolicy.Stages = []group.Stage{stage}
	}
	choose(&s, g, m)
	s.HealthChecks = healthChecks(m)
	if s.AutoHealing != nil && g.Checked && len(s.HealthChecks) > 0 {
		s.AutoHealing.HealthCheck = s.HealthChecks[0].Name
	}
	s.Normalize()
	return s
}

// keepBack sets which members no rollout moves, which move to another Revision, and which have a size of their own.
func (w *World) keepBack(s *group.Spec, m plan.Move) {
	s.UpdatePolicy.Partition = m.Partition
	preserved := group.PreservedState{Disk: "data"}
	if m.Preserve == plan.Everybody {
		s.PreservedState = preserved
	} else if _, ordinal, err := group.ParseSlot(m.Preserve); err == nil {
		s.Instances = []group.InstanceSettings{{Ordinal: ordinal, PreservedState: preserved}}
	}
	if slot := cmp.Or(m.Exclude, m.Pin); slot != "" {
		_, ordinal, _ := group.ParseSlot(slot) // an unreadable slot means the first
		own := group.InstanceSettings{Ordinal: ordinal, ExcludeFromRollout: m.Exclude != ""}
		if m.Pin != "" {
			first := w.plan.Moves[slices.IndexFunc(w.plan.Moves, func(one plan.Move) bool { return one.Group == m.Group })]
			own.PinnedRevision = w.spec(first).Revision()
		}
		if len(s.Instances) > 0 && s.Instances[0].Ordinal == ordinal {
			own.PreservedState, s.Instances = preserved, nil
		}
		s.Instances = append(s.Instances, own)
	}
	if _, ordinal, err := group.ParseSlot(m.Own); err == nil {
		own := s.Instance(ordinal)
		own.InstanceType = plan.OwnSize
		s.Instances = append(slices.DeleteFunc(s.Instances, func(i group.InstanceSettings) bool { return i.Ordinal == ordinal }), own)
	}
}

// deep is the name of a check and of its command; launch is the name of a hook and of its command.
const (
	deep   = "deep"
	launch = "launch"
)

// healthChecks of a move.
func healthChecks(m plan.Move) []group.HealthCheck {
	const ready = "ready"
	of := func(name, command string, every int) group.HealthCheck {
		return group.HealthCheck{Name: name, CheckIntervalSec: every, Exec: &group.ExecAction{Service: m.Group, Command: command}}
	}
	switch m.Checks {
	case plan.SlowCheck:
		return []group.HealthCheck{of(ready, ready, 20)}
	case plan.OtherCheck:
		return []group.HealthCheck{of(ready, deep, 10)}
	case plan.TwoChecks:
		return []group.HealthCheck{of(ready, ready, 10), of(deep, deep, 5)}
	case plan.NoCheck:
		return nil
	}
	return []group.HealthCheck{of(ready, ready, 10)}
}

// compose is the text of a release; it lists the commands that the agent may run.
func compose(g plan.Group, release string) string {
	image := "@sha256:" + strings.Repeat("a", 64)
	text := "services:\n  " + g.Name + ":\n    image: example.org/" + g.Name + image + "\n    environment:\n      " + plan.ReleaseIs + release + "\n"
	commands := "ready: [ready], deep: [deep]"
	if g.Hook != plan.Unhooked {
		commands += ", drain: [drain]"
	}
	if g.Launch != plan.Unhooked {
		commands += ", launch: [launch]"
	}
	return text + `    command: [/run/mesh/exec, --, serve]
    volumes: ["mesh:/run/mesh", "commands:/run/cadre-exec"]
    x-cadre: { exec: { ` + commands + ` } }
  cadre:
    image: example.org/cadre` + image + `
    volumes: ["mesh:/run/mesh", "commands:/run/cadre-exec/` + g.Name + `"]
volumes: { mesh: {}, commands: { driver_opts: { type: tmpfs, device: tmpfs } } }
`
}

// giveUp permits the deletion of the disks of members that the spec no longer wants. Disks that
// were given up before stay given up, unless their members are wanted again.
func (w *World) giveUp(ctx context.Context, s group.Spec, before []string) error {
	now := s.Members()
	gone := slices.DeleteFunc(before, func(slot string) bool { return slices.Contains(now, slot) })
	if len(gone) == 0 {
		return nil
	}
	if was, err := w.store.Get(ctx, store.DeleteDisksKey(s.Name)); err == nil {
		if said := decode[store.DeleteDisks](was.Value); said != nil {
			gone = append(gone, slices.DeleteFunc(said.Slots, func(slot string) bool { return slices.Contains(gone, slot) || slices.Contains(now, slot) })...)
		}
	}
	text, err := json.Marshal(store.DeleteDisks{Group: s.Name, Slots: gone, Reason: "they go", By: "operator", At: time.Now()})
	if err != nil {
		return err
	}
	return w.store.Commit(ctx, store.Op{Kind: store.OpPut, Key: store.DeleteDisksKey(s.Name), Value: text})
}

func (w *World) group(name string) plan.Group {
	return w.plan.Groups[slices.IndexFunc(w.plan.Groups, func(g plan.Group) bool { return g.Name == name })]
}

// Operate makes the plan's moves. It then waits until all faults have ended and the cluster is
// settled, or its time is over, and ends the trace.
func (w *World) Operate(ctx context.Context) error {
	for _, m := range w.plan.Moves {
		if !pause(ctx, m.At-time.Since(w.began)) {
			return ctx.Err()
		}
		w.say("operator", strings.TrimSpace(fmt.Sprintf("asks for %s of %s, %d replicas %s", m.Release, m.Group, m.Replicas, m.Checks)))
		spec := w.spec(m)
		before, now := w.wants(spec)
		if !now {
			continue // applied when the group is made again, or never
		}
		if err := w.Apply(ctx, spec); err != nil {
			return err
		}
		if m.GiveUp {
			if err := w.giveUp(ctx, spec, before.Members()); err != nil {
				return err
			}
		}
	}
	if !pause(ctx, w.plan.HealAt+restAfter-time.Since(w.began)) {
		return ctx.Err()
	}
	at, seen := rest{}, -1
	for end := time.Now().Add(w.plan.Rest); time.Now().Before(end); {
		// Without a step no group's status changes.
		if steps := w.stepsMade(); steps != seen {
			now, err := w.resting(ctx)
			if err != nil {
				return err
			}
			seen, at = steps, now.after(at)
		}
		// A group that gives one reason for so long waits for an operator.
		if w.allSay(at) && (at.all() || at.stands(w.plan.Still)) || !pause(ctx, restEvery) {
			break
		}
	}
	w.settle(at)
	return nil
}

func (w *World) stepsMade() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.steps + w.operators.acts
}

// rest is the groups' status, by name; a group without a status has no entry.
type rest map[string]said

// said is the status of a group, and since when.
type said struct {
	// reason is why the group is not settled; "": it is.
	reason  string
	rollout string
	holds   []string
	since   time.Time
}

// after is r with the times of unchanged reasons.
func (r rest) after(before rest) rest {
	for name, now := range r {
		if was, said := before[name]; said && was.reason == now.reason {
			now.since = was.since
			r[name] = now
		}
	}
	return r
}

// all reports that every group is settled.
func (r rest) all() bool {
	for _, one := range r {
		if one.reason != "" {
			return false
		}
	}
	return true
}

// stands reports that no status changed for d.
func (r rest) stands(d time.Duration) bool {
	for _, one := range r {
		if time.Since(one.since) <= d {
			return false
		}
	}
	return true
}

// resting is the present status of all groups.
func (w *World) resting(ctx context.Context) (rest, error) {
	out := rest{}
	for name, spec := range w.wanted() {
		one, says, err := w.reason(ctx, spec)
		if err != nil {
			return nil, err
		}
		if says {
			out[name] = one
		}
	}
	return out, nil
}

// reason is the status of the group of s; says is false without a status.
func (w *World) reason(ctx context.Context, s group.Spec) (one said, says bool, err error) {
	st, err := simulated.Status(ctx, w.store, s.Name)
	if err != nil {
		return said{}, false, err
	}
	one = said{rollout: st.Rollout, since: time.Now()}
	target := s.Revision()
	arrived := !w.ends(s.Name) && st.Target == target && st.Stable == target && st.Available == s.Replicas && st.Updated == s.Replicas && len(st.Instances) == s.Replicas
	for _, c := range st.Conditions {
		if c.Type == rollout.ConditionOrphans && c.Status {
			one.reason, one.holds = c.Message, []string{c.Type}
			return one, true, nil
		}
	}
	if arrived {
		return one, true, nil
	}
	var reasons []string
	if st.RolloutState != "" || st.Message != "" {
		reasons = append(reasons, fmt.Sprintf("%s: %s", st.RolloutState, st.Message))
	}
	for _, i := range st.Instances {
		if i.Reason != "" {
			reasons = append(reasons, fmt.Sprintf("%s: %s", i.Slot, i.Reason))
		}
		for _, h := range i.Holds {
			reasons = append(reasons, fmt.Sprintf("%s: %s: %s", i.Slot, h.Predicate, h.Message))
			one.holds = append(one.holds, h.Predicate)
		}
	}
	slices.Sort(one.holds)
	one.reason, one.holds = strings.Join(reasons, "; "), slices.Compact(one.holds)
	return one, one.reason != "", nil
}

func (w *World) settle(at rest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := trace.Event{
		Kind: trace.Settled, By: "operator", Resting: map[string]string{}, Waiting: map[string]trace.Waiting{}, Still: w.plan.Still,
		Faults: w.faults, Steps: w.steps,
	}
	for name, one := range at {
		if e.Resting[name] = one.reason; one.reason != "" {
			e.Waiting[name] = trace.Waiting{For: time.Since(one.since), Rollout: one.rollout, Holds: one.holds}
		}
	}
	for _, one := range w.cloud.AllLocked() {
		c := one.Guest
		e.CVMs = append(e.CVMs, trace.CVM{
			Name: c.Name, VMUUID: c.VMUUID, InstanceID: c.InstanceID, Hash: c.ComposeHash,
			Content: w.contentLocked(c.ComposeHash), InstanceType: c.InstanceType, OSImage: c.OSImage,
			Stopped: c.boot == "" && !c.InProgress, Hung: c.hung,
		})
	}
	w.noteLocked(e)
}
