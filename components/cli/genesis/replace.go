package genesis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cadre.dev/cli/upgrade"
	"cadre.dev/client"
	"cadre.dev/platform"
)

// Replacement gives a lost coordinator a new CVM with an empty disk. Use it once, from one goroutine.
type Replacement struct {
	observer
	slot string
	// Facts are those of PrepareReplace, and Against says why the coordinator may not be replaced.
	Facts   upgrade.Facts
	Against []string
	// VMUUID is the CVM to delete; "": the platform has none.
	VMUUID string
	// Continues: an earlier run noted this replacement.
	Continues bool
}

// PrepareReplace reads the state of the coordinators. It changes nothing.
func PrepareReplace(ctx context.Context, o Options, slot string) (*Replacement, error) {
	v, err := newObserver(ctx, o)
	if err != nil {
		return nil, err
	}
	s, err := v.observe(ctx)
	if err != nil {
		return nil, err
	}
	r := &Replacement{observer: *v, slot: slot, Facts: s.facts, VMUUID: s.cvms[slot].VMUUID}
	if r.c.Replacing != nil && r.overcome(s) {
		r.c.Replacing = nil
	}
	r.Continues = r.c.Replacing != nil && r.c.Replacing.Slot == slot
	switch {
	case r.Continues:
		// The new CVM may be well by now, and then nothing is left to do.
		r.Against = upgrade.MayGoOn(s.facts, slot)
	case r.c.Replacing != nil:
		r.Against = []string{fmt.Sprintf("the replacement of %s is not over: run `cadre cluster replace %s FILE` first", r.c.Replacing.Slot, r.c.Replacing.Slot)}
	default:
		r.Against = upgrade.MayReplace(s.facts, slot)
	}
	return r, nil
}

// overcome reports that the noted CVM was not deleted, and that its coordinator is well again.
func (r *Replacement) overcome(s seen) bool {
	cvm, exists := s.cvms[r.c.Replacing.Slot]
	well := !slices.ContainsFunc(s.facts.Coordinators, func(c upgrade.Coordinator) bool {
		return c.Slot == r.c.Replacing.Slot && len(s.facts.Unwell(c)) > 0
	})
	return exists && cvm.VMUUID == r.c.Replacing.VMUUID && well
}

// Run removes the voter, deletes the CVM, makes it again under the same name, and waits until all
// coordinators are well. The context notes the CVM to delete first, so that a run after an
// interruption deletes no new CVM.
func (r *Replacement) Run(ctx context.Context) error {
	if len(r.Against) > 0 {
		return fmt.Errorf("%s is not replaced:\n  %s", r.slot, strings.Join(r.Against, "\n  "))
	}
	if !r.Continues {
		r.c.Replacing = &client.Replacing{Slot: r.slot, VMUUID: r.VMUUID}
		if err := r.c.Save(r.o.ContextPath); err != nil {
			return err
		}
	}
	s, err := r.observe(ctx)
	if err != nil {
		return err
	}
	if against := upgrade.MayGoOn(s.facts, r.slot); len(against) > 0 {
		return fmt.Errorf("%s is not replaced now:\n  %s\nrun the same command again to continue", r.slot, strings.Join(against, "\n  "))
	}
	if cvm, exists := s.cvms[r.slot]; exists && cvm.VMUUID == r.c.Replacing.VMUUID {
		if err := r.remove(ctx, s, cvm); err != nil {
			return err
		}
	}
	if _, exists := s.cvms[r.slot]; !exists || s.cvms[r.slot].VMUUID == r.c.Replacing.VMUUID {
		if s.facts.Coordinators[r.ordinal(r.slot)].Voter && !exists {
			if err := r.removeVoter(ctx, s); err != nil {
				return err
			}
		}
		if err := r.make(ctx, s); err != nil {
			return err
		}
	}
	if err := r.awaitWell(ctx); err != nil {
		return err
	}
	r.c.Replacing = nil
	return r.c.Save(r.o.ContextPath)
}

// remove removes the voter, and then the CVM with its disk.
func (r *Replacement) remove(ctx context.Context, s seen, cvm platform.Instance) error {
	if err := r.removeVoter(ctx, s); err != nil {
		return err
	}
	r.o.Say("deleting " + cvm.Name)
	if err := r.o.Cloud.Delete(ctx, cvm.VMUUID); err != nil {
		return err
	}
	for {
		now, err := r.cvms(ctx)
		if i, exists := now[r.slot]; err == nil && (!exists || i.VMUUID != cvm.VMUUID) {
			return nil
		}
		if !pause(ctx, r.o.Poll) {
			return fmt.Errorf("%s is not deleted yet: %w", cvm.Name, errors.Join(context.Cause(ctx), err))
		}
	}
}

// removeVoter asks a coordinator that is well. A server that died a moment ago still counts as healthy.
func (r *Replacement) removeVoter(ctx context.Context, s seen) error {
	r.o.Say("removing the voter of " + r.slot)
	until := time.Now().Add(r.o.step())
	for {
		var last error
		for _, c := range s.facts.Coordinators {
			if c.Slot == r.slot || !c.Answers {
				continue
			}
			call, cancel := context.WithTimeout(ctx, answerLimit)
			last = r.o.reach().RemoveVoter(call, r.c, s.cvms[c.Slot].InstanceID, r.slot)
			cancel()
			if last == nil {
				return nil
			}
		}
		if time.Now().After(until) || !pause(ctx, r.o.Poll) {
			return fmt.Errorf("the voter of %s is not removed: %w\nrun the same command again to continue", r.slot, errors.Join(context.Cause(ctx), last))
		}
	}
}

// make creates the CVM again, in the coordinators' app.
func (r *Replacement) make(ctx context.Context, s seen) error {
	existing, others := "", []platform.Instance{}
	for _, slot := range slices.Sorted(maps.Keys(s.cvms)) {
		if slot != r.slot {
			existing, others = s.cvms[slot].VMUUID, append(others, s.cvms[slot])
		}
	}
	t, p, err := offer(ctx, r.o, r.c, r.co, existing)
	if err != nil {
		return err
	}
	if p.ComposeHash != r.hash {
		return fmt.Errorf("the platform measures compose hash %s now, and measured %s at the start", p.ComposeHash, r.hash)
	}
	if err := r.o.allowKeys(r.c.CoordinatorAppID, p.ComposeHash, false); err != nil {
		return err
	}
	n := r.ordinal(r.slot)
	t.Env = envOf(r.co.Env, n)
	req := platform.CreateRequest{Name: CVMName(r.c.Cluster, n), AppID: r.c.CoordinatorAppID, Provisioned: p, Template: t, Node: freest(r.o.Cluster.Platform.Nodes, others)}
	r.o.Say("creating " + req.Name + " with an empty disk")
	_, err = create(ctx, r.o, r.c, req, r.co.Replicas)
	return err
}

// awaitWell waits until all coordinators are well.
func (r *Replacement) awaitWell(ctx context.Context) error {
	last, until := "", time.Now().Add(r.o.step())
	for {
		s, err := r.observe(ctx)
		var reasons []string
		if err != nil {
			reasons = []string{err.Error()}
		} else if step := upgrade.Next(s.facts); step.Action == upgrade.Done {
			r.o.Say(r.slot + " is back: all coordinators are well")
			return nil
		} else if reasons = step.Reasons; len(reasons) == 0 {
			reasons = []string{fmt.Sprintf("the coordinators need another step: %s %s", step.Action, step.Slot)}
		}
		if text := strings.Join(reasons, "; "); text != last {
			r.o.Say("waiting: " + text)
			last = text
		}
		if time.Now().After(until) || !pause(ctx, r.o.Poll) {
			return errors.Join(fmt.Errorf("%s\nrun the same command again to continue", last), context.Cause(ctx))
		}
	}
}
