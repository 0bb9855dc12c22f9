package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/queue"
)

// OverrideKind is the effect of an operator's override, as a part of its key.
type OverrideKind string

const (
	// OverridePause stops new steps of a group's rollout and new removals.
	OverridePause OverrideKind = "pause"
	// OverrideFreeze stops all new actions in a group, or in every group for Everywhere.
	OverrideFreeze OverrideKind = "freeze"
	// OverrideDrain takes a Slot out of service.
	OverrideDrain OverrideKind = "drain"
	// OverrideProtect protects a Slot from disruptions.
	OverrideProtect OverrideKind = "protect"
	// OverrideExclude leaves a Slot out of rollouts, of healing, or of both.
	OverrideExclude OverrideKind = "exclude"
	// OverrideGate opens or closes a gate of a group's spec. Its scope is <group>/<gate>, or
	// <group>/<gate>/<slot> for a gate per Slot.
	OverrideGate OverrideKind = "gate"
	// OverrideHold passes one named hold of a group. Its scope is <group>/<hold>.
	OverrideHold OverrideKind = "override"
)

// OverrideKinds returns all kinds.
func OverrideKinds() []OverrideKind {
	return append([]OverrideKind{OverridePause, OverrideFreeze, OverrideGate, OverrideHold}, SlotOverrides()...)
}

// SlotOverrides returns the kinds whose scope is a Slot.
func SlotOverrides() []OverrideKind {
	return []OverrideKind{OverrideDrain, OverrideProtect, OverrideExclude}
}

// OfSlot reports whether the scope of the kind is a Slot.
func (k OverrideKind) OfSlot() bool { return slices.Contains(SlotOverrides(), k) }

// Group returns the group that an override of the kind and scope concerns; "": all groups. ok is
// false when scope is not a valid Slot name.
func (k OverrideKind) Group(scope string) (name string, ok bool) {
	switch {
	case k == OverrideGate:
		name, _, _, ok = GateScope(scope)
		return name, ok
	case k == OverrideHold:
		name, _, ok = HoldScope(scope)
		return name, ok
	case k.OfSlot():
		name, _, err := group.ParseSlot(scope)
		return name, err == nil
	case scope == Everywhere:
		return "", true
	}
	return scope, true
}

// GateScope splits the scope of a gate's override; slot is empty for a gate per group. ok is false
// when scope names no gate.
func GateScope(scope string) (of, gate, slot string, ok bool) {
	of, rest, _ := strings.Cut(scope, "/")
	gate, slot, perSlot := strings.Cut(rest, "/")
	ok = nameGrammar.MatchString(of) && nameGrammar.MatchString(gate)
	if perSlot {
		slotOf, _, err := group.ParseSlot(slot)
		ok = ok && err == nil && slotOf == of
	}
	return of, gate, slot, ok
}

// HoldScope splits the scope of an override of a hold; ok is false when scope names no hold.
func HoldScope(scope string) (of, hold string, ok bool) {
	of, hold, _ = strings.Cut(scope, "/")
	return of, hold, nameGrammar.MatchString(of) && holdGrammar.MatchString(hold)
}

// Prefix is the common prefix of the keys of all overrides of the kind.
func (k OverrideKind) Prefix() string { return ControlPrefix + string(k) + "/" }

// Override is an operator's switch at control/<kind>/<scope>. It is in effect while it exists and
// Until has not passed. The key has its kind and its group or Slot.
type Override struct {
	// From lists the activities that an exclusion covers, `rollout` or `healing`; empty: both.
	From []string `json:"from,omitempty"`
	// State of a gate, `open` or `closed`. Any other text counts as closed.
	State string `json:"state,omitempty"`
	// Ticket of the step for which a gate per Slot is open, as the plan shows it. The override is about
	// no other step.
	Ticket string `json:"ticket,omitempty"`
	// Rollout is the rollout that an override of a hold belongs to; empty: the time without a rollout.
	Rollout string    `json:"rollout,omitempty"`
	Reason  string    `json:"reason"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
	// Until is when it ends automatically, by the clock of At; zero: at its deletion.
	Until time.Time `json:"until,omitzero"`
	// EndElapsed is the StateRecord.Elapsed at which it ends, in milliseconds. The leader writes it
	// when it first sees the switch, from the time between At and Until. Leave it out in a record
	// written by hand.
	EndElapsed uint64 `json:"end_elapsed_ms,omitempty"`
}

// Length is the duration of the override from the moment when it is first seen, at most MaxElapsed.
// now is the reader's clock, and is used only when the record has no At.
func (m Override) Length(now time.Time) time.Duration {
	if !m.At.IsZero() {
		now = m.At
	}
	return min(max(m.Until.Sub(now), 0), MaxElapsed*time.Millisecond)
}

// RequireApproval is the operator's switch at control/require-approval: while it exists, every
// group's new Revisions wait for an approval. A token that may write specs but not control/ cannot
// turn it off.
type RequireApproval struct {
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

// Limits is the operator's record at control/limits.
type Limits struct {
	// Steps, Rollouts and Creations are 1 to queue.Max; absent: no limit.
	Steps     int       `json:"steps,omitempty"`
	Rollouts  int       `json:"rollouts,omitempty"`
	Creations int       `json:"creations,omitempty"`
	Reason    string    `json:"reason"`
	By        string    `json:"by"`
	At        time.Time `json:"at"`
}

// Check names each value that is out of range.
func (l Limits) Check() error {
	var problems []string
	for _, one := range []struct {
		name  queue.Limit
		value int
	}{{queue.Steps, l.Steps}, {queue.Rollouts, l.Rollouts}, {queue.Creations, l.Creations}} {
		if one.value < 0 || one.value > queue.Max {
			problems = append(problems, fmt.Sprintf("%s: is %d: must be 1 to %d, or left out for no limit; to stop all work: cadre freeze", one.name, one.value, queue.Max))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(problems, "; "))
}

// Recovery is the operator's record at control/recover, the remedy for EPOCH_REGRESSION: the next
// Term is above Term and the next state above State. Term is at least 1, and both are at most
// MaxRaised. The record only raises, so it can stay.
type Recovery struct {
	Term   uint64    `json:"term"`
	State  uint64    `json:"state,omitempty"`
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at,omitzero"`
}

// DeleteGroup is the operator's switch at control/delete/<g>. While it exists, the leader takes
// every Slot of the group out of service, and then deletes the group's records including the
// switch. Exactly one of KeepCVMs and DeleteDisks is set. Deleting the switch stops the deletion of
// the rest.
type DeleteGroup struct {
	Group string `json:"group"`
	// KeepCVMs keeps the CVMs running: Cadre forgets them, and they lose their credentials.
	KeepCVMs bool `json:"keep_cvms,omitempty"`
	// DeleteDisks deletes the CVMs and the content of their disks.
	DeleteDisks bool      `json:"delete_disks,omitempty"`
	Reason      string    `json:"reason"`
	By          string    `json:"by"`
	At          time.Time `json:"at"`
}

// DeleteDisks is the operator's switch at control/delete-disks/<g>: a scale-in may delete the disks
// of the named Slots only. The leader deletes the switch when none of them is left.
type DeleteDisks struct {
	Group  string    `json:"group"`
	Slots  []string  `json:"slots"`
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

// Adoption is the operator's request at control/adopt/<g>: running CVMs with lost records become
// the members that they attested to be. The leader binds exactly these, and deletes the request
// when each of them is bound or cannot be.
type Adoption struct {
	Group   string    `json:"group"`
	Members []Adopted `json:"members"`
	Reason  string    `json:"reason"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
}

// Adopted is one Slot with the Instance that it will be bound to. At that moment the Instance's
// latest genuine evidence must still match these fields.
type Adopted struct {
	Slot       string `json:"slot"`
	InstanceID string `json:"instance_id"`
	// ComposeHash as attested, 64 hex characters.
	ComposeHash string `json:"compose_hash"`
	// Revision that measures to ComposeHash.
	Revision string `json:"revision"`
	// VMUUID of the CVM on the platform.
	VMUUID string `json:"vm_uuid"`
}

// SpentNonce is the record at admission/nonces/<n>: its existence means that the nonce was used. It
// may be deleted after ExpiresAt.
type SpentNonce struct {
	Slot      string    `json:"slot"`
	BootID    string    `json:"boot_id,omitempty"`
	SpentAt   time.Time `json:"spent_at"`
	ExpiresAt time.Time `json:"expires_at"`
	By        string    `json:"by,omitempty"`
}

// LeaseRecord is the value of the lock key, for human readers: the lock itself is the session on
// the key, and the fence is the index of the Term key.
type LeaseRecord struct {
	Holder string    `json:"holder"`
	Term   uint64    `json:"term"`
	Since  time.Time `json:"since"`
}

// BootLease is the value of lease/boots/<slot>: the Boot for which a coordinator's session holds
// the key. Without a session the Slot is free, regardless of the value.
type BootLease struct {
	Slot       string    `json:"slot"`
	BootID     string    `json:"boot_id"`
	InstanceID string    `json:"instance_id"`
	Generation uint64    `json:"generation"`
	Since      time.Time `json:"since"`
	// By is the coordinator that keeps the lease with its own session.
	By    string     `json:"by"`
	State LeaseState `json:"state,omitempty"`
}

// LeaseState is the state of a Boot's lease; "": the coordinator keeps it.
type LeaseState string

const (
	// LeaseOffered: the lease's coordinator does not hear from the Boot. A coordinator that does
	// takes the lease.
	LeaseOffered LeaseState = "offered"
	// LeaseSilent: the lease was given up because no coordinator heard from the Boot.
	LeaseSilent LeaseState = "silent"
	// LeaseEnded: the Boot said farewell, or was evicted. It gets no lease again.
	LeaseEnded LeaseState = "ended"
)

// TermRecord is the value of the Term key.
type TermRecord struct {
	Term uint64 `json:"term"`
}

// StateRecord is the value of the state key, the watermark of the records.
type StateRecord struct {
	State uint64 `json:"state"`
	// Term of the leader that wrote it.
	Term uint64    `json:"term"`
	At   time.Time `json:"at"`
	// Elapsed counts the milliseconds during which a coordinator ran. It follows no machine's
	// clock, and never goes back. At most MaxElapsed.
	Elapsed uint64 `json:"elapsed_ms,omitempty"`
}

// MaxElapsed is about 270 years in milliseconds; a time.Duration can hold it.
const MaxElapsed = 1 << 43

// ClusterIDRecord has the cluster ID of the cluster that the records belong to.
type ClusterIDRecord struct {
	// ClusterID in the one form of core/clusterid.
	ClusterID string    `json:"cluster_id"`
	At        time.Time `json:"at"`
	// By is the coordinator that wrote it.
	By string `json:"by"`
}
