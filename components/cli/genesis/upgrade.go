package genesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/cli/upgrade"
	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/platform"
)

const (
	// DefaultStep bounds the time of a coordinator from its change until it is well.
	DefaultStep = 10 * time.Minute
	// maxChanges bounds the changes of one coordinator in one run: the compose file, the shape, the OS
	// image, and one of them again.
	maxChanges = 4
	// guestPatience is how long a guest may take to shut down before its change, until its CVM is stopped
	// as by a power cut.
	guestPatience = 2 * time.Minute
	// maxStepDowns bounds the steps down of one coordinator in one run.
	maxStepDowns = 5
)

// UpgradePlan has the steps of an upgrade, and its needs.
type UpgradePlan struct {
	Cluster string `json:"cluster"`
	// NewHash: the context does not list the wanted compose hash yet.
	NewHash bool `json:"new_hash"`
	// TrustChanges: the trust block of the file differs from the context's.
	TrustChanges bool          `json:"trust_changes,omitempty"`
	Facts        upgrade.Facts `json:"facts"`
	// Steps end with done, or with why no step is allowed.
	Steps []upgrade.Step `json:"steps"`
	// KMSAllow is the compose hash that a person has to allow at the key service of own hosts, because no
	// kms_auth_file does it; "": none.
	KMSAllow string `json:"kms_allow,omitempty"`
	// Pinned are groups whose members would not accept the changed coordinators, with the reasons.
	Pinned []string `json:"pinned,omitempty"`
}

// Changes reports whether any coordinator differs from the wanted content.
func (p UpgradePlan) Changes() bool {
	return slices.ContainsFunc(p.Facts.Coordinators, func(c upgrade.Coordinator) bool { return len(c.Is.Changes(p.Facts.Wanted)) > 0 })
}

// Upgrade is a prepared upgrade. Use it once, from one goroutine.
type Upgrade struct {
	Plan UpgradePlan
	observer
	changed, stepped map[string]int
	// stops are the accepted stops of CVMs that are not down yet, by Slot, on a platform that changes a
	// stopped CVM only.
	stops map[string]time.Time
	// until is when the present wait ends.
	until time.Time
}

// PrepareUpgrade reads the context and the state of the coordinators, and has the platform measure the
// document of the cluster file. It changes nothing.
func PrepareUpgrade(ctx context.Context, o Options) (*Upgrade, error) {
	v, err := newObserver(ctx, o)
	if err != nil {
		return nil, err
	}
	u := &Upgrade{observer: *v, changed: map[string]int{}, stepped: map[string]int{}, stops: map[string]time.Time{}}
	old, err := client.LoadContext(o.ContextPath)
	if err != nil {
		return nil, err
	}
	u.Plan = UpgradePlan{Cluster: u.c.Cluster, TrustChanges: !sameTrust(old.Trust, u.c.Trust),
		NewHash: len(u.c.CoordinatorComposeHashes) > 0 && !slices.Contains(u.c.CoordinatorComposeHashes, u.hash)}
	s, err := u.observe(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range s.facts.Coordinators {
		if want := s.facts.Wanted.DiskGB; want > 0 && c.Is.DiskGB > want {
			return nil, fmt.Errorf("coordinator.disk_gb: %d is smaller than the disk of %s (%d GB): disks only grow", want, c.Slot, c.Is.DiskGB)
		}
	}
	u.Plan.Facts, u.Plan.Steps = s.facts, upgrade.Plan(s.facts)
	if u.keysByHand() {
		u.Plan.KMSAllow = u.hash
	}
	groups, err := o.reach().Groups(ctx, u.c)
	switch {
	case err == nil:
		u.Plan.Pinned = pinned(groups, u.hash)
	case u.Plan.NewHash:
		return nil, fmt.Errorf("whether trust files of groups must know the new coordinators is unknown: %w", err)
	}
	return u, nil
}

// newObserver prepares the change of an existing cluster to its file.
func newObserver(ctx context.Context, o Options) (*observer, error) {
	c, err := client.LoadContext(o.ContextPath)
	if err != nil {
		return nil, err
	}
	if c.Cluster != o.Cluster.Name {
		return nil, fmt.Errorf("context %s is of cluster %q, the file is about %q", o.ContextPath, c.Cluster, o.Cluster.Name)
	}
	if c, err = byFile(c, o.Cluster); err != nil {
		return nil, fmt.Errorf("context %s: %w", o.ContextPath, err)
	}
	if o.Poll <= 0 {
		o.Poll = 2 * time.Second
	}
	v := &observer{o: o, c: c, changes: map[string]change{}, given: map[string]bool{}}
	if v.co, err = facts(o, c); err != nil {
		return nil, err
	}
	cvms, err := v.cvms(ctx)
	if err != nil {
		return nil, err
	}
	existing := ""
	for _, i := range cvms {
		existing = i.VMUUID
	}
	if existing == "" {
		return nil, fmt.Errorf("cluster %s: %w", c.Cluster, errNoCoordinators)
	}
	_, p, err := offer(ctx, o, c, v.co, existing)
	v.hash = p.ComposeHash
	return v, err
}

// whole reports whether every coordinator has a CVM.
func (p UpgradePlan) whole() bool {
	return !slices.ContainsFunc(p.Facts.Coordinators, func(c upgrade.Coordinator) bool { return !c.Exists })
}

// Run carries the upgrade out until all coordinators are well with the wanted content. It may be
// interrupted at any point, also by the death of the process: another Upgrade continues.
func (u *Upgrade) Run(ctx context.Context) error {
	if len(u.Plan.Pinned) > 0 {
		return fmt.Errorf("members of these groups would not accept the changed coordinators, so that nothing is changed:\n  %s", strings.Join(u.Plan.Pinned, "\n  "))
	}
	if err := u.keysAllowed(); err != nil {
		return err
	}
	if len(u.c.CoordinatorComposeHashes) > 0 {
		u.c = addHash(u.c, u.hash)
	}
	if err := u.c.Save(u.o.ContextPath); err != nil {
		return err
	}
	if err := u.o.allowKeys(u.c.CoordinatorAppID, u.hash, false); err != nil {
		return err
	}
	last, before := "", upgrade.Step{}
	u.until = time.Now().Add(u.o.step())
	for {
		step := upgrade.Step{Action: upgrade.Wait}
		s, err := u.observe(ctx)
		if err == nil {
			step, err = upgrade.Next(s.facts), u.force(ctx, s)
		}
		if err != nil {
			step = upgrade.Step{Action: upgrade.Wait}
			step.Reasons = []string{err.Error()}
		}
		// Autopilot judges every two seconds, so that the first answer after a boot may be of before it.
		decided := step
		if step.Action != upgrade.Wait && step.Action != upgrade.Stop && (step.Action != before.Action || step.Slot != before.Slot) {
			step = upgrade.Step{Action: upgrade.Wait}
		}
		before = decided
		switch step.Action {
		case upgrade.Done:
			u.o.Say("all coordinators run compose hash " + u.hash[:12] + " and are well")
			return u.o.allowKeys(u.c.CoordinatorAppID, u.hash, true)
		case upgrade.Stop:
			return u.stopped(step.Reasons)
		case upgrade.Wait:
		case upgrade.StepDown, upgrade.Change, upgrade.Start:
			var busy error
			if busy, err = u.act(ctx, step, s); err != nil {
				return err
			}
			step.Reasons = nil
			if busy != nil {
				step.Reasons = []string{busy.Error()}
			}
		}
		if text := strings.Join(step.Reasons, "; "); text != "" && text != last {
			u.o.Say("waiting: " + text)
			last = text
		}
		if time.Now().After(u.until) {
			return u.stopped(append(step.Reasons, fmt.Sprintf("that did not change within %s (--deadline)", u.o.step())))
		}
		if !pause(ctx, u.o.Poll) {
			return fmt.Errorf("interrupted: %w; run the same command again to continue: %s", context.Cause(ctx), strings.Join(step.Reasons, "; "))
		}
	}
}

// keysByHand reports whether a coordinator is to boot with another compose hash on own hosts, and only a
// person can allow it at the key service.
func (u *Upgrade) keysByHand() bool {
	p := u.o.Cluster.Platform
	return p.Driver == group.PlatformVMM && p.KMSAuthFile == "" &&
		slices.ContainsFunc(u.Plan.Facts.Coordinators, func(c upgrade.Coordinator) bool { return c.Is.ComposeHash != u.hash })
}

// keysAllowed refuses an upgrade whose first coordinator would be stopped and then get no keys.
func (u *Upgrade) keysAllowed() error {
	switch said := u.o.KMSAllows; {
	case said != "" && said != u.hash:
		return fmt.Errorf("--kms-allows %s: the file gives compose hash %s: allow that one", said, u.hash)
	case said == "" && u.Plan.KMSAllow != "":
		return fmt.Errorf(`the key service must allow app %s with compose hash %s first, so that nothing is changed.
On the host of the webhook: `+"`cadre kms-auth init --static FILE --app %s --compose-hash %s`"+`
Then: `+"`cadre cluster upgrade FILE --kms-allows %s`"+`
Where this machine has the file that the webhook reads, name it as kms_auth_file instead`, u.c.CoordinatorAppID, u.hash, u.c.CoordinatorAppID, u.hash, u.hash)
	}
	return nil
}

// act takes a step. busy is why it has to be repeated.
func (u *Upgrade) act(ctx context.Context, step upgrade.Step, s seen) (busy, err error) {
	call, cancel := context.WithTimeout(ctx, 3*answerLimit)
	defer cancel()
	cvm := s.cvms[step.Slot]
	switch step.Action {
	case upgrade.StepDown:
		u.o.Say(fmt.Sprintf("%s steps down; %s is to lead Consul", step.Slot, step.To))
		if u.stepped[step.Slot] >= maxStepDowns {
			return nil, u.stopped([]string{fmt.Sprintf("%s stepped down %d times and leads again", step.Slot, maxStepDowns)})
		}
		if busy = u.o.reach().StepDown(call, u.c, cvm.InstanceID, step.To); busy == nil {
			u.stepped[step.Slot]++
		}
		return busy, nil
	case upgrade.Start:
		u.o.Say("starting " + step.Slot)
		_, err = u.o.Cloud.Start(call, cvm.VMUUID)
	default:
		if u.o.Cloud.Habits().StopFirst && !stopped(cvm) {
			return u.stop(call, step.Slot, cvm)
		}
		if u.changed[step.Slot]++; u.changed[step.Slot] > maxChanges {
			return nil, u.stopped([]string{fmt.Sprintf("the platform does not take the change of %s: %s", step.Slot, strings.Join(step.Reasons, ", "))})
		}
		u.o.Say(fmt.Sprintf("changing %s: %s", step.Slot, strings.Join(step.Reasons, ", ")))
		err = u.change(call, step.Slot, cvm, s.facts.Wanted)
	}
	switch {
	case errors.Is(err, platform.ErrBusy), errors.Is(err, platform.ErrThrottled):
		u.changed[step.Slot]-- // it was not taken
		return err, nil
	case errors.Is(err, platform.ErrRefused):
		return nil, fmt.Errorf("%s: %w", step.Slot, err)
	case step.Action == upgrade.Change && u.o.Cloud.Habits().StopFirst:
		return err, nil // it stays down: the next look shows the content, and starts it or repeats the change
	}
	// An unknown outcome counts as a change until the platform shows the contrary.
	u.changes[step.Slot] = change{at: time.Now(), boot: s.boots[step.Slot]}
	u.until = time.Now().Add(u.o.step())
	return err, nil
}

// stopped reports a CVM that stays down. A host starts an exited CVM again.
func stopped(cvm platform.Instance) bool { return cvm.Status == "stopped" && !cvm.InProgress }

// stop asks the guest of a CVM to shut down. busy: it is not down yet.
func (u *Upgrade) stop(ctx context.Context, slot string, cvm platform.Instance) (busy, err error) {
	if _, asked := u.stops[slot]; !asked || cvm.Status == "exited" {
		u.o.Say("stopping " + slot)
		_, err := u.o.Cloud.Stop(ctx, cvm.VMUUID)
		switch {
		case errors.Is(err, platform.ErrBusy), errors.Is(err, platform.ErrThrottled):
			return err, nil
		case errors.Is(err, platform.ErrRefused):
			return nil, fmt.Errorf("%s: %w", slot, err)
		}
		u.stops[slot], u.until = time.Now(), time.Now().Add(u.o.step())
	}
	return errors.New(slot + " is shutting down"), nil
}

// force stops a CVM whose guest was asked to shut down and did not, and forgets the stops of CVMs that are
// down.
func (u *Upgrade) force(ctx context.Context, s seen) error {
	for slot, at := range u.stops {
		cvm := s.cvms[slot]
		if stopped(cvm) {
			delete(u.stops, slot)
			continue
		}
		if time.Since(at) < min(guestPatience, u.o.step()/4) {
			continue
		}
		u.o.Say(slot + " does not shut down: stopping it as by a power cut")
		call, cancel := context.WithTimeout(ctx, 3*answerLimit)
		_, err := u.o.Cloud.ForceStop(call, cvm.VMUUID)
		cancel()
		u.stops[slot] = time.Now()
		if err != nil {
			return fmt.Errorf("stop %s: %w", slot, err)
		}
	}
	return nil
}

// change makes one call: the compose file first, then the shape. Where a change is of a stopped CVM, the
// one call takes both.
func (u *Upgrade) change(ctx context.Context, slot string, cvm platform.Instance, want upgrade.Content) error {
	whole := u.o.Cloud.Habits().StopFirst
	if cvm.ComposeHash != want.ComposeHash || u.oldEnv(slot) || whole {
		// The platform remembers an offered document for a while only.
		_, p, err := offer(ctx, u.o, u.c, u.co, cvm.VMUUID)
		if err != nil {
			return err
		}
		if p.ComposeHash != u.hash {
			return fmt.Errorf("the platform measures compose hash %s now, and measured %s at the start: %w", p.ComposeHash, u.hash, platform.ErrRefused)
		}
		req := platform.UpdateRequest{VMUUID: cvm.VMUUID, ComposeHash: p.ComposeHash, EnvKey: p.EnvKey, KMS: p.KMS, Env: envOf(u.co.Env, u.ordinal(slot))}
		if whole {
			req.Shape = shapeOf(cvm, want)
		}
		// A platform that sees no change keeps the old env values.
		switch got, err := u.o.Cloud.Update(ctx, req); {
		case err != nil:
			return err
		case !got.NoChange || !u.oldEnv(slot):
			u.given[slot] = true
		}
		return nil
	}
	shape := shapeOf(cvm, want)
	if shape.InstanceType == "" && shape.DiskGB == 0 {
		_, err := u.o.Cloud.SetOSImage(ctx, cvm.VMUUID, shape.OSImage)
		return err
	}
	_, err := u.o.Cloud.Resize(ctx, cvm.VMUUID, shape)
	return err
}

// shapeOf is the difference of a CVM's shape from the wanted one.
func shapeOf(cvm platform.Instance, want upgrade.Content) (shape platform.Shape) {
	if !group.SameOSImage(want.OSImage, cvm.OSImage) {
		shape.OSImage = want.OSImage
	}
	if want.InstanceType != cvm.InstanceType {
		shape.InstanceType = want.InstanceType
	}
	if want.DiskGB > cvm.DiskGB {
		shape.DiskGB = want.DiskGB
	}
	return shape
}

func (v *observer) ordinal(slot string) int {
	for n := range v.co.Replicas {
		if Slot(n) == slot {
			return n
		}
	}
	return 0 // cvms rejected every other name
}

// wayBack follows each stop.
const wayBack = `The upgrade stops here, and no other coordinator is taken down.
To continue after a repair, run the same command again. To go back, run
` + "`cadre cluster upgrade OLD.hcl`" + ` with the cluster file of the version before.`

func (u *Upgrade) stopped(reasons []string) error {
	return fmt.Errorf("%s\n%s", strings.Join(reasons, "\n"), wayBack)
}

func (o Options) reach() Reach {
	if o.Reach != nil {
		return o.Reach
	}
	return gateway{o.Dial}
}

func (o Options) step() time.Duration {
	if o.Step > 0 {
		return o.Step
	}
	return DefaultStep
}
