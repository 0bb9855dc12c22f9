package store

import (
	"slices"
	"time"

	"cadre.dev/core/group"
)

// OverrideKind is what an operator's override asks for, and the part of its key that says so.
type OverrideKind string

const (
	// OverridePause begins no step of a group's rollout and no removal.
	OverridePause OverrideKind = "pause"
	// OverrideFreeze begins nothing in a group, or in any group for Everywhere.
	OverrideFreeze OverrideKind = "freeze"
	// OverrideDrain takes a Slot out of service.
	OverrideDrain OverrideKind = "drain"
	// OverrideProtect keeps a Slot from what disrupts it.
	OverrideProtect OverrideKind = "protect"
	// OverrideExclude leaves a Slot out of rollouts, of healing, or of both.
	OverrideExclude OverrideKind = "exclude"
)

// OverrideKinds are all that there are; the first two are about a group, the others about a Slot.
func OverrideKinds() []OverrideKind {
	return append([]OverrideKind{OverridePause, OverrideFreeze}, SlotOverrides()...)
}

// SlotOverrides are the kinds whose scope is a Slot.
func SlotOverrides() []OverrideKind {
	return []OverrideKind{OverrideDrain, OverrideProtect, OverrideExclude}
}

// OfSlot reports that the scope of the kind is a Slot, and not a group.
func (k OverrideKind) OfSlot() bool { return slices.Contains(SlotOverrides(), k) }

// Group is the group that an override of the kind about scope concerns; "": all groups. ok is false
// where no Slot has the name.
func (k OverrideKind) Group(scope string) (name string, ok bool) {
	switch {
	case k.OfSlot():
		name, _, err := group.ParseSlot(scope)
		return name, err == nil
	case scope == Everywhere:
		return "", true
	}
	return scope, true
}

// Prefix is what the keys of all overrides of the kind begin with.
func (k OverrideKind) Prefix() string { return ControlPrefix + string(k) + "/" }

// Override is an operator's switch at control/<kind>/<scope>: it is on while it exists and Until
// has not come. The key says what it asks for, and of which group or Slot.
type Override struct {
	// From is what an exclusion leaves the Slot out of, `rollout` or `healing`; none named: of both.
	From   []string  `json:"from,omitempty"`
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	// Until is when it ends by itself, by the clock that At is of; zero: when it is deleted.
	Until time.Time `json:"until,omitzero"`
	// EndElapsed is what StateRecord.Elapsed is when it ends, in milliseconds. The leader writes it when it first
	// sees the switch, from the time between At and Until. Leave it out in a record written by hand.
	EndElapsed uint64 `json:"end_elapsed_ms,omitempty"`
}

// Length is for how long the override stands from when it is first seen; now is the clock of whoever
// sees it, which counts only where the record does not say when it was set. Not above MaxElapsed.
func (m Override) Length(now time.Time) time.Duration {
	if !m.At.IsZero() {
		now = m.At
	}
	return min(max(m.Until.Sub(now), 0), MaxElapsed*time.Millisecond)
}

// RequireApproval is the operator's switch at control/require-approval: while it
// exists, every group's new Revisions wait for an approval. Who may write specs but
// not control/ cannot turn it off.
type RequireApproval struct {
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

// Recovery is the operator's record at control/recover, the way out of EPOCH_REGRESSION:
// the next Term is above Term and the next state above State. Term is at least 1, neither
// is above MaxRaised. It only raises, so it can stay.
type Recovery struct {
	Term   uint64    `json:"term"`
	State  uint64    `json:"state,omitempty"`
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at,omitzero"`
}

// DeleteGroup is the operator's switch at control/delete/<g>: while it exists, the
// leader takes every Slot of the group out of service, and at last the group's records,
// the switch with them. Exactly one of KeepCVMs and DeleteDisks is set. Deleting the
// switch keeps what is not gone yet.
type DeleteGroup struct {
	Group string `json:"group"`
	// KeepCVMs leaves the CVMs as they run: they are forgotten, and lose their
	// credentials.
	KeepCVMs bool `json:"keep_cvms,omitempty"`
	// DeleteDisks deletes the CVMs and what is on their disks.
	DeleteDisks bool      `json:"delete_disks,omitempty"`
	Reason      string    `json:"reason"`
	By          string    `json:"by"`
	At          time.Time `json:"at"`
}

// DeleteDisks is the operator's switch at control/delete-disks/<g>: a scale-in may
// delete the disks of the Slots that it names, and of no other. The leader deletes it
// when none of them is left.
type DeleteDisks struct {
	Group  string    `json:"group"`
	Slots  []string  `json:"slots"`
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

// Adoption is the operator's request at control/adopt/<g>: running CVMs whose records
// are lost become the members that they attested to be. The leader binds exactly these,
// and deletes the request when each of them is bound or cannot be.
type Adoption struct {
	Group   string    `json:"group"`
	Members []Adopted `json:"members"`
	Reason  string    `json:"reason"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
}

// Adopted is one Slot with the Instance that it is to be bound to. What the latest
// genuine evidence of that Instance says must still be the same when it is bound.
type Adopted struct {
	Slot       string `json:"slot"`
	InstanceID string `json:"instance_id"`
	// ComposeHash as attested, 64 hex characters.
	ComposeHash string `json:"compose_hash"`
	// Revision that measures it.
	Revision string `json:"revision"`
	// VMUUID of the CVM on the platform.
	VMUUID string `json:"vm_uuid"`
}

// SpentNonce is the record at admission/nonces/<n>: its existence means that the
// nonce was used. It may be deleted after ExpiresAt.
type SpentNonce struct {
	Slot      string    `json:"slot"`
	BootID    string    `json:"boot_id,omitempty"`
	SpentAt   time.Time `json:"spent_at"`
	ExpiresAt time.Time `json:"expires_at"`
	By        string    `json:"by,omitempty"`
}

// LeaseRecord is the value of the lock key, for people: the lock itself is the
// session on the key, and the fence is the index of the Term key.
type LeaseRecord struct {
	Holder string    `json:"holder"`
	Term   uint64    `json:"term"`
	Since  time.Time `json:"since"`
}

// BootLease is the value of lease/boots/<slot>: the Boot that the session on the
// key stands for. Without a session nobody holds the Slot, whatever it says.
type BootLease struct {
	Slot       string    `json:"slot"`
	BootID     string    `json:"boot_id"`
	InstanceID string    `json:"instance_id"`
	Generation uint64    `json:"generation"`
	Since      time.Time `json:"since"`
	// By is the coordinator that keeps the lease, with a session of its own.
	By    string     `json:"by"`
	State LeaseState `json:"state,omitempty"`
}

// LeaseState is what the keeper of a Boot's lease says about it; "": it keeps it.
type LeaseState string

const (
	// LeaseOffered: the keeper does not hear the Boot. A coordinator that does takes the lease.
	LeaseOffered LeaseState = "offered"
	// LeaseSilent: the lease was given up, since nobody heard the Boot.
	LeaseSilent LeaseState = "silent"
	// LeaseEnded: the Boot said farewell, or was evicted. It gets no lease any more.
	LeaseEnded LeaseState = "ended"
)

// TermRecord is the value of the Term key.
type TermRecord struct {
	Term uint64 `json:"term"`
}

// StateRecord is the value of the state key: how far the records have come.
type StateRecord struct {
	State uint64 `json:"state"`
	// Term of the leader that wrote it.
	Term uint64    `json:"term"`
	At   time.Time `json:"at"`
	// Elapsed counts the milliseconds that passed while a coordinator ran. It follows no machine's
	// clock, and never goes back. Not above MaxElapsed.
	Elapsed uint64 `json:"elapsed_ms,omitempty"`
}

// MaxElapsed is some 270 years in milliseconds, which a time.Duration holds.
const MaxElapsed = 1 << 43

// ClusterIDRecord says which cluster ID of the cluster the records are of.
type ClusterIDRecord struct {
	// ClusterID in the one form of core/clusterid.
	ClusterID string    `json:"cluster_id"`
	At        time.Time `json:"at"`
	// By is the coordinator that wrote it.
	By string `json:"by"`
}
