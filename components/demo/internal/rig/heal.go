package rig

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// Healing describes the automatic recovery of one Slot.
type Healing struct {
	Slot string `json:"slot"`
	// Harm is the damage, Kind the repairing operation; "": none of Cadre's.
	Harm string `json:"harm"`
	Kind string `json:"kind,omitempty"`
	// DownS is from the harm to available again, NoticedS to the recorded Operation.
	DownS    float64          `json:"down_s"`
	NoticedS float64          `json:"noticed_s,omitempty"`
	PhasesMS map[string]int64 `json:"phases,omitempty"`
	// PlatformS is from the first call that brought it back to the start of its first service.
	PlatformS float64 `json:"platform_s,omitempty"`
	// AdmittedS is from there to the admission of its Boot. Where a service was restarted
	// RestartedS is from the order to its end, and both others are zero.
	AdmittedS  float64 `json:"admitted_s,omitempty"`
	RestartedS float64 `json:"restarted_s,omitempty"`
	// JoinedS is from then until the member was ready; min_ready_seconds follow.
	JoinedS float64 `json:"joined_s,omitempty"`
}

// line is how the time was spent, by name, in seconds.
func (h Healing) line() map[string]float64 {
	return map[string]float64{"noticed_s": h.NoticedS, "platform_s": h.PlatformS, "admitted_s": h.AdmittedS, "restarted_s": h.RestartedS, "joined_s": h.JoinedS}
}

// Hang stops the processes of a Slot's service that have one of these names, so that they
// neither end nor answer.
func (r *Rig) Hang(ctx context.Context, slot, service string, names ...string) error {
	return r.signal(ctx, slot, service, "STOP", names...)
}

func (r *Rig) signal(ctx context.Context, slot, service, signal string, names ...string) error {
	const script = `
		found=
		for process in /proc/[0-9]*; do
			read -r name < "$process/comm" || continue
			for one; do
				if [ "$one" = "$name" ]; then
					kill -s "$0" "${process#/proc/}" && found=1
				fi
			done
		done
		[ -n "$found" ]`
	_, err := r.Exec(ctx, r.PlatformName(slot), service, append([]string{"sh", "-c", script, signal}, names...)...)
	if err != nil {
		return fmt.Errorf("send SIG%s to service %s of %s: %w", signal, service, slot, err)
	}
	return nil
}

// healTime bounds how long a Slot may need to come back.
const healTime = 5 * time.Minute

// replaceAuto lets healing give a Slot another CVM.
var replaceAuto = []string{"--var", "replace=auto"}

// Healed is the demo's third act: a killed CVM recovers automatically, and a permanently destroyed
// one as well, on another CVM, rebuilt from the leader.
func (r *Rig) Healed(ctx context.Context, n *Narrator, report *Report) error {
	n.Say("no operator starts the killed CVM again: %s heals", report.Killed)
	killed, err := r.awaitBack(ctx, report.Killed, "its CVM was killed", report.KilledAt, func(i client.Instance) (operation.Operation, bool) {
		op, ok := healed(i, report.KilledAt)
		// A host with dstack-vmm starts an ended CVM again before Cadre may.
		return op, ok || r.Platform == group.PlatformVMM && i.Status.BootID != "" && i.Status.BootID != report.killedBoot
	})
	if err != nil {
		return err
	}
	n.Healing(killed)
	slot, err := r.aFollower(ctx, Postgres)
	if err != nil {
		return err
	}
	n.Say("destroying the CVM of %s with its disk on the platform, past Cadre", slot.Slot)
	from := time.Now()
	if err := r.LoseCVM(ctx, slot.VMUUID); err != nil {
		return err
	}
	lost, err := r.AwaitHealed(ctx, slot.Slot, "its CVM was destroyed", from)
	if err != nil {
		return err
	}
	n.Healing(lost)
	rows, standby, err := r.Rows(ctx, slot.Slot)
	if err != nil {
		return err
	}
	if !standby || r.DiskKept(ctx, slot.Slot) {
		return fmt.Errorf("%s came back with %d rows, standby %t, and with the disk that was destroyed", slot.Slot, rows, standby)
	}
	n.Say("  %-12s has %d rows again, copied from the leader onto an empty disk", slot.Slot, rows)
	report.Heals = append(report.Heals, killed, lost)
	return r.AwaitWrites(ctx, time.Now(), 50)
}

// Healing prints the recovery of a Slot.
func (n *Narrator) Healing(h Healing) {
	if h.Kind == "" {
		n.Say("  %-12s back after %.0f s: its own supervisor or host started it again", h.Slot, h.DownS)
		return
	}
	n.Say("  %-12s back after %.0f s: noticed after %.1f s, %s: %s", h.Slot, h.DownS, h.NoticedS, h.Kind, phaseText(h.PhasesMS))
}

// AwaitHealed waits until a Slot that was harmed at a time is available again by an Operation of
// healing, and returns its duration and kind.
func (r *Rig) AwaitHealed(ctx context.Context, slot, harm string, from time.Time) (Healing, error) {
	return r.awaitBack(ctx, slot, harm, from, func(i client.Instance) (operation.Operation, bool) { return healed(i, from) })
}

// awaitServer waits until the member of a Slot whose server process was killed answers
// again, which its own supervisor sees to, and until Cadre has it available.
func (r *Rig) awaitServer(ctx context.Context, slot, harm string, from time.Time, asked func(context.Context, string) error) (Healing, error) {
	ctx, cancel := context.WithTimeout(ctx, healTime)
	defer cancel()
	for {
		err := asked(ctx, slot)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return Healing{}, errors.Join(fmt.Errorf("%s does not answer after %s", slot, harm), ctx.Err(), err)
		}
	}
	answered := time.Since(from)
	h, err := r.awaitBack(ctx, slot, harm, from, func(client.Instance) (operation.Operation, bool) {
		return operation.Operation{}, time.Since(from) > answered+settles
	})
	h.DownS = answered.Seconds()
	return h, err
}

// settles bounds the time until a coordinator knows that a member is unhealthy.
const settles = 5 * time.Second

func (r *Rig) awaitBack(ctx context.Context, slot, harm string, from time.Time, over func(client.Instance) (operation.Operation, bool)) (Healing, error) {
	c, err := r.Client()
	if err != nil {
		return Healing{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, healTime)
	defer cancel()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	var last client.Instance
	for {
		seen, err := c.Instance(ctx, slot)
		if err == nil {
			last = seen
			if op, ok := over(seen); ok && seen.Status.State == client.StateAvailable {
				return r.healing(ctx, slot, harm, from, op)
			}
		}
		select {
		case <-ctx.Done():
			return Healing{}, errors.Join(fmt.Errorf("%s did not come back after %s: %s, %s", slot, harm, last.Status.State, last.Status.Reason), ctx.Err(), err)
		case <-ticker.C:
		}
	}
}

// healed is the last Operation that healed the Slot since a time and came to a good end.
func healed(i client.Instance, since time.Time) (op operation.Operation, ok bool) {
	for _, o := range i.Operations {
		if o.Actor == operation.ActorHealing && o.Phase == operation.Done && o.Times.Created.After(since) && o.Times.Ended.After(op.Times.Ended) {
			op, ok = o, true
		}
	}
	return op, ok
}

// healing is the report of a Slot that is back now, by op if that has a Kind.
func (r *Rig) healing(ctx context.Context, slot, harm string, from time.Time, op operation.Operation) (Healing, error) {
	h := Healing{Slot: slot, Harm: harm, Kind: string(op.Kind), DownS: time.Since(from).Seconds()}
	if op.Kind == "" {
		return h, nil
	}
	h.NoticedS, h.PhasesMS, h.DownS = op.Times.Created.Sub(from).Seconds(), phases(op), op.Times.Ended.Sub(from).Seconds()
	h.JoinedS = op.Entered[operation.Settling].Sub(op.Entered[operation.Joining]).Seconds()
	if op.Way.Service != "" {
		h.Kind += " of service " + op.Way.Service
		h.RestartedS = op.Entered[operation.Joining].Sub(op.Entered[operation.Booting]).Seconds()
		return h, nil // the platform was not called
	}
	cvms, err := r.CVMs(ctx)
	if err != nil {
		return h, err
	}
	first := cvms[r.PlatformName(slot)].FirstStart()
	h.PlatformS, h.AdmittedS = first.Sub(op.Entered[operation.Acting]).Seconds(), op.Entered[operation.Joining].Sub(first).Seconds()
	return h, nil
}

// aFollower is a member of a group that follows, and that was not healed within the window,
// once all are available.
func (r *Rig) aFollower(ctx context.Context, of string) (group.InstanceStatus, error) {
	c, err := r.Client()
	if err != nil {
		return group.InstanceStatus{}, err
	}
	if err := c.Wait(ctx, of, client.WaitOptions{}); err != nil {
		return group.InstanceStatus{}, fmt.Errorf("the group is not whole: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, healTime)
	defer cancel()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		instances, err := c.Instances(ctx, of)
		for _, i := range instances {
			if i.Role == "follower" && i.Heals == nil {
				return i, nil
			}
		}
		select {
		case <-ctx.Done():
			return group.InstanceStatus{}, errors.Join(errors.New("no member of the group follows whose healing is over"), ctx.Err(), err)
		case <-ticker.C:
		}
	}
}
