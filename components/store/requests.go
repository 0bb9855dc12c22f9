package store

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/group"
)

// RequestKind is what an operator asks for through the queue.
type RequestKind string

const (
	// RequestRestart asks for a restart of one Slot at its Revision, or of one service in it.
	RequestRestart RequestKind = "restart"
	// RequestUpdate asks for the update of one Slot to what its group wants it to run.
	RequestUpdate RequestKind = "update"
	// RequestReplace asks for a new CVM with a new disk for one Slot: what the old one
	// had is lost.
	RequestReplace RequestKind = "replace"
	// RequestResolve says what became of a platform call that nobody can tell.
	RequestResolve RequestKind = "resolve"
	// RequestRetry lets a group's rollout go on that has failed.
	RequestRetry RequestKind = "retry"
	// RequestRelease ends the hold of a Slot that two Boots took from each other.
	RequestRelease RequestKind = "release"
)

// Resolution is what an operator says about an undecided platform call.
type Resolution string

const (
	// ResolvedDone: the call took effect.
	ResolvedDone Resolution = "done"
	// ResolvedFailed: the call had no effect and will have none.
	ResolvedFailed Resolution = "failed"
)

// MaxReason bounds an operator's reason in a record, in bytes.
const MaxReason = 500

// QueueRequest is one request of an operator at control/queue/<id>. The leader
// deletes it in the transaction that records what it does about it. A request whose id
// an Operation bears already is spent.
type QueueRequest struct {
	ID   string      `json:"id"`
	Kind RequestKind `json:"kind"`
	// Group is needed for a retry; elsewhere it may be left out, since Slot names are
	// unique in the cluster.
	Group string `json:"group,omitempty"`
	// Slot of a restart, update, replace or release.
	Slot string `json:"slot,omitempty"`
	// VMUUID and InstanceID are the CVM that a restart, update or replace is about; "" is whichever the
	// Slot has when its turn comes. Once the Slot has another, nothing is done.
	VMUUID     string `json:"vm_uuid,omitempty"`
	InstanceID string `json:"instance_id,omitempty"`
	// Gone of a replace: the platform did not list the CVM when it was asked for. One that is
	// listed again by its turn is not replaced.
	Gone bool `json:"gone,omitempty"`
	// Service of a restart is the one whose workload starts anew in its container; "": the CVM.
	Service string `json:"service,omitempty"`
	// Operation and As of a resolve.
	Operation string     `json:"operation,omitempty"`
	As        Resolution `json:"as,omitempty"`
	// DeleteDisk of a replace: the operator knows that the disk is lost with the CVM.
	DeleteDisk bool      `json:"delete_disk,omitempty"`
	Reason     string    `json:"reason"`
	By         string    `json:"by"`
	At         time.Time `json:"at"`
}

// Check tells what is wrong with a request, by field; nil: nothing that shows without
// other records. One that fails is carried out by nobody.
func (q QueueRequest) Check() error {
	if !idGrammar.MatchString(q.ID) {
		return fmt.Errorf("id: %.80q is not an id: letters, digits and . _ : -, at most 128 bytes", q.ID)
	}
	if len(q.Reason) > MaxReason {
		return fmt.Errorf("reason: %d bytes, at most %d", len(q.Reason), MaxReason)
	}
	needs := q.needs()
	if needs == nil {
		return fmt.Errorf("kind: %.80q is none: use restart, update, replace, resolve, retry or release", q.Kind)
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"slot", q.Slot != ""}, {"operation", q.Operation != ""}, {"as", q.As != ""}, {"delete_disk", q.DeleteDisk},
	} {
		switch {
		case f.set && !needs[f.name]:
			return fmt.Errorf("%s: a %s has none", f.name, q.Kind)
		case !f.set && needs[f.name]:
			return fmt.Errorf("%s: is missing: a %s needs it", f.name, q.Kind)
		}
	}
	if q.Service != "" && q.Kind != RequestRestart {
		return fmt.Errorf("service: a %s has none", q.Kind)
	}
	return q.checkValues()
}

// needs are the fields that a request of the kind has; nil: there is no such kind.
func (q QueueRequest) needs() map[string]bool {
	switch q.Kind {
	case RequestRestart, RequestUpdate, RequestRelease:
		return map[string]bool{"slot": true}
	case RequestReplace:
		return map[string]bool{"slot": true, "delete_disk": true}
	case RequestResolve:
		return map[string]bool{"operation": true, "as": true}
	case RequestRetry:
		return map[string]bool{}
	}
	return nil
}

func (q QueueRequest) checkValues() error {
	if q.Slot != "" {
		g, _, err := group.ParseSlot(q.Slot)
		if err != nil {
			return fmt.Errorf("slot: %w", err)
		}
		if q.Group != "" && q.Group != g {
			return fmt.Errorf("group: %.80q is not the group of slot %s", q.Group, q.Slot)
		}
	}
	if p := group.NameProblem(q.Service); q.Service != "" && p != "" {
		return fmt.Errorf("service: %.80q %s", q.Service, p)
	}
	switch {
	case (q.VMUUID != "" || q.InstanceID != "") && !slices.Contains([]RequestKind{RequestRestart, RequestUpdate, RequestReplace}, q.Kind):
		return fmt.Errorf("vm_uuid, instance_id: a %s has none", q.Kind)
	case len(q.VMUUID) > 128 || len(q.InstanceID) > 128:
		return errors.New("vm_uuid, instance_id: at most 128 bytes each")
	case q.Gone && q.Kind != RequestReplace:
		return fmt.Errorf("gone: a %s has none", q.Kind)
	case q.Kind == RequestRetry && !nameGrammar.MatchString(q.Group):
		return fmt.Errorf("group: %.80q is not the name of a group", q.Group)
	case q.Operation != "" && !idGrammar.MatchString(q.Operation):
		return fmt.Errorf("operation: %.80q is not an id", q.Operation)
	case q.As != "" && q.As != ResolvedDone && q.As != ResolvedFailed:
		return fmt.Errorf("as: %.80q is neither done nor failed", q.As)
	}
	return nil
}
