package rollouttest

import (
	"fmt"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
)

// World is the input of one rollout.Decide.
type World struct {
	Spec    group.Spec
	Records rollout.Records
	Seen    rollout.Observation
	Now     time.Time
	Timing  rollout.Timing
}

// Decide plans the world unchanged.
func (w World) Decide() rollout.Plan {
	return rollout.Decide(w.Spec, w.Records, w.Seen, w.Now, w.Timing)
}

// These are the times of a Busy group: its rollout to the new Revision began an hour ago.
var (
	now     = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	began   = now.Add(-time.Hour)
	created = now.Add(-30 * 24 * time.Hour)
)

// Busy is a group of n Slots in the middle of a rollout with work for every pass, like a large group with many faults.
// Of each hundred Slots
//
//	79  are available and outdated, and wait for the budget
//	 8  are available at the target, with the Operation that brought them there
//	 1  is in each phase of a step after acting, 1 drains, 1 has a call that is out
//	 2  are silent, one of them for long enough to be lost
//	 1  was called off twice by its hooks, 1 is unhealthy on its own
//	 1  is refused admission, 1 carries a duplicate
//	 1  was asked to restart by an operator
//	 1  has no CVM yet
//
// and every Slot has records and a policy. The budget exceeds the Slots that are away by a few, so that some steps
// begin and the others are held. kind is the workload's: group.WorkloadNone has neither roles nor voters. n may exceed
// a group's limit, since the planner's cost is measured.
func Busy(n int, kind string) World {
	b := started(n, kind)
	for i := range n {
		b.slot(i, i%100)
	}
	b.Records.Rollout.Steps = len(b.Records.Operations)
	return b.World
}

// started is a group that is to have n Slots and has no Slot yet.
func started(n int, kind string) *busy {
	spec := group.Spec{
		Name: "web", Platform: "phala", AppID: strings.Repeat("a", 40), Replicas: n,
		Template: group.Template{Compose: compose("old"), InstanceType: "tdx.small", OSImage: "dstack-0.5.7"},
		Workload: group.Workload{Kind: kind},
	}
	percent := 14
	spec.UpdatePolicy.MaxUnavailablePercent = &percent
	spec.Normalize()
	b := &busy{from: spec.Revision(), kind: kind}
	spec.Template.Compose = compose("new")
	b.to = spec.Revision()
	b.World = World{Spec: spec, Now: now, Timing: rollout.DefaultTiming()}
	b.records(n)
	b.Seen = rollout.Observation{Platform: rollout.Source{Known: true}, Records: rollout.Source{Known: true}, At: now}
	return b
}

type busy struct {
	World
	from, to, kind string
}

func compose(name string) string {
	return "services:\n  app:\n    image: example/app@sha256:" + strings.Repeat("ab", 32) + "\n# " + name + "\n"
}

func hash(revision string) string { return strings.Repeat(revision[:8], 8) }

func (b *busy) records(n int) {
	b.Records = rollout.Records{
		SpecIndex: 7,
		Status: group.Status{Group: b.Spec.Name, Generation: 2, Target: b.to, Stable: b.from, Replicas: n,
			At: now.Add(-time.Second)},
		Revisions: map[string]group.RevisionRecord{},
		Rollout: &operation.Rollout{ID: fmt.Sprintf("web-2-%.8s", b.to), Group: b.Spec.Name, Generation: 2, From: b.from, To: b.to,
			State: operation.Running, StartedAt: began, ProgressAt: now.Add(-time.Minute)},
		Policies: map[string]policy.SlotPolicy{},
	}
	for _, revision := range []string{b.from, b.to} {
		b.Records.Revisions[revision] = group.RevisionRecord{Digest: revision, Group: b.Spec.Name, Template: b.Spec.Template, ComposeHash: hash(revision)}
	}
}

// slot adds ordinal i, with the given disturbance.
func (b *busy) slot(i, which int) {
	slot := group.SlotName(b.Spec.Name, i)
	record := group.SlotRecord{
		Group: b.Spec.Name, Slot: slot, Ordinal: i, AppID: b.Spec.AppID, InstanceID: "i-" + slot, VMUUID: "vm-" + slot,
		PlatformName: "c-" + slot, Assigned: b.from, AvailableSince: created, AvailableBoot: "boot-" + slot, WasAvailableAt: b.from,
	}
	seen := rollout.SlotObservation{
		Slot: slot, Ordinal: i,
		Instance: &rollout.Instance{VMUUID: record.VMUUID, InstanceID: record.InstanceID, AppID: record.AppID, Name: record.PlatformName,
			Status: "running", ComposeHash: hash(b.from), UpdatedAt: created},
		Admission: &policy.Admission{Group: b.Spec.Name, Slot: slot, BootID: "boot-" + slot, InstanceID: record.InstanceID, Revision: b.from, AdmittedAt: created},
		Report:    b.report(slot, i),
	}
	b.disturb(which, &record, &seen)
	b.Records.Slots = append(b.Records.Slots, record)
	b.Records.Policies[slot] = policy.SlotPolicy{Group: b.Spec.Name, Slot: slot, AppID: record.AppID, InstanceID: record.InstanceID,
		Allowed: []policy.AllowedRevision{{Revision: record.Assigned, ComposeHash: hash(record.Assigned), OSImage: b.Spec.Template.OSImage}}}
	b.Seen.Slots = append(b.Seen.Slots, seen)
}

func (b *busy) report(slot string, i int) *rollout.Report {
	yes := true
	r := &rollout.Report{
		BootID: "boot-" + slot, ReceivedAt: now.Add(-time.Second), Health: rollout.Healthy, BootAt: created.Add(-time.Minute),
		HealthyFor: now.Add(-time.Second).Sub(created),
		MemberView: rollout.MemberView{Role: rollout.RoleNone, Liveness: rollout.LivenessAlive, MemberReady: true, CaughtUp: &yes, MayDisrupt: true},
	}
	if b.kind != group.WorkloadNone {
		r.Role, r.Epoch, r.Leader = rollout.RoleFollower, 5, group.SlotName(b.Spec.Name, 0)
		if i == 0 {
			r.Role = rollout.RoleLeader
		}
	}
	return r
}

func (b *busy) disturb(which int, record *group.SlotRecord, seen *rollout.SlotObservation) {
	away := now.Add(-2 * time.Minute)
	switch which {
	case 1, 2, 3, 4, 5, 6, 7, 8:
		b.arrive(record, seen)
		b.operation(record, operation.Done, "")
	case 10:
		b.operation(record, operation.Booting, "")
	case 11:
		b.operation(record, operation.Joining, "")
	case 12:
		b.operation(record, operation.Settling, "")
	case 13:
		b.operation(record, operation.Draining, "")
	case 14:
		b.operation(record, operation.Acting, "")
	case 15, 16:
		seen.Report = nil
		record.AvailableSince, record.UnavailableSince = time.Time{}, now.Add(-time.Duration(which-14)*4*time.Minute)
	case 17:
		b.operation(record, operation.Aborted, operation.CauseHook)
		b.operation(record, operation.Aborted, operation.CauseHook)
	case 18:
		seen.Report.Health, record.AvailableSince, record.UnavailableSince = rollout.Unhealthy, time.Time{}, away
	case 19:
		seen.Admission, seen.Report = nil, nil
		seen.Refusal = &policy.Refusal{Slot: record.Slot, InstanceID: record.InstanceID, Code: policy.CodeRevisionNotAllowed, Message: "not allowed", Proven: true, At: away}
		record.AvailableSince, record.UnavailableSince = time.Time{}, away
	case 20:
		seen.Duplicates = []rollout.Instance{*seen.Instance}
	case 21:
		b.Seen.Requests = append(b.Seen.Requests, rollout.Request{ID: "q-" + record.Slot, Kind: rollout.RequestRestart, Slot: record.Slot})
	case 22:
		*record = group.SlotRecord{Group: record.Group, Slot: record.Slot, Ordinal: record.Ordinal, Assigned: b.from}
		*seen = rollout.SlotObservation{Slot: record.Slot, Ordinal: record.Ordinal}
	}
}

// arrive moves a Slot to the target, half an hour ago.
func (b *busy) arrive(record *group.SlotRecord, seen *rollout.SlotObservation) {
	at := now.Add(-30 * time.Minute)
	record.Assigned, record.WasAvailableAt, record.AvailableSince = b.to, b.to, at
	seen.Admission.Revision, seen.Admission.AdmittedAt = b.to, at
	seen.Instance.ComposeHash, seen.Instance.UpdatedAt = hash(b.to), at
	seen.Report.BootAt, seen.Report.HealthyFor = at, seen.Report.ReceivedAt.Sub(at)
}

// operation adds a step of the Slot that began some minutes ago.
func (b *busy) operation(record *group.SlotRecord, phase operation.Phase, cause operation.Cause) {
	n := len(b.Records.Operations) + 1
	at := now.Add(-5*time.Minute + time.Duration(n)*time.Millisecond)
	op := operation.Operation{
		ID: fmt.Sprintf("%s.%d.%s", b.Records.Rollout.ID, n, record.Slot), Rollout: b.Records.Rollout.ID, Group: b.Spec.Name,
		Slot: record.Slot, Kind: operation.Update, CVM: operation.CVM{InstanceID: record.InstanceID, VMUUID: record.VMUUID}, From: b.from, To: b.to,
		Attempt: 1, Order: n, Phase: phase, Failure: operation.Failure{Cause: cause}, Reason: "as it was", Before: operation.Before{BootID: "boot-" + record.Slot},
		Entered: operation.PhaseTimes{phase: at}, Times: operation.Times{Created: at,
			DrainBy: now.Add(time.Minute), HealthyBy: now.Add(5 * time.Minute)}, Call: operation.Call{IssuedAt: now.Add(-time.Second), Number: 1},
	}
	if phase.Ended() {
		op.Times.Ended = at.Add(time.Minute)
	}
	b.Records.Operations = append(b.Records.Operations, op)
}
