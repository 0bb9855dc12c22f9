package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
)

// RequestKind is the action that an operator requests through the queue.
type RequestKind string

const (
	// RequestRestart restarts one Slot at its Revision, or one service in it.
	RequestRestart RequestKind = "restart"
	// RequestUpdate updates one Slot to the Revision that its group wants.
	RequestUpdate RequestKind = "update"
	// RequestReplace gives one Slot a new CVM with a new disk: the content of the old disk is lost.
	RequestReplace RequestKind = "replace"
	// RequestResolve settles a platform call with an unknown outcome.
	RequestResolve RequestKind = "resolve"
	// RequestRetry retries a group's failed rollout.
	RequestRetry RequestKind = "retry"
	// RequestPromote promotes the named stage of a group's rollout.
	RequestPromote RequestKind = "promote"
	// RequestRelease ends the hold of a Slot that two Boots took from each other.
	RequestRelease RequestKind = "release"
)

// Resolution is an operator's answer about an undecided platform call.
type Resolution string

const (
	// ResolvedDone: the call took effect.
	ResolvedDone Resolution = "done"
	// ResolvedFailed: the call had no effect and will have none.
	ResolvedFailed Resolution = "failed"
)

// MaxReason bounds an operator's reason in a record, in bytes.
const MaxReason = 500

// QueueRequest is one request of an operator at control/queue/<id>. The leader deletes it in the
// transaction that records the resulting action. A request whose id an Operation already has is
// spent.
type QueueRequest struct {
	ID   string      `json:"id"`
	Kind RequestKind `json:"kind"`
	// Group is required for a retry and a promotion. Elsewhere it may be left out, because Slot names are unique in
	// the cluster.
	Group string `json:"group,omitempty"`
	// Slot of a restart, update, replace or release.
	Slot string `json:"slot,omitempty"`
	// VMUUID and InstanceID identify the CVM of a restart, update or replace; "": the Slot's CVM
	// when the request is carried out. If the Slot has another CVM by then, the request has no
	// effect.
	VMUUID     string `json:"vm_uuid,omitempty"`
	InstanceID string `json:"instance_id,omitempty"`
	// Gone of a replace: the platform did not list the CVM at the time of the request. If the
	// platform lists it again, the CVM is not replaced.
	Gone bool `json:"gone,omitempty"`
	// Service of a restart names the service whose workload is restarted in its container; "": the
	// CVM.
	Service string `json:"service,omitempty"`
	// Operation and As of a resolve.
	Operation string     `json:"operation,omitempty"`
	As        Resolution `json:"as,omitempty"`
	// Rollout and Stage of a promotion. A request for a stage that is over has no effect on the next one.
	Rollout string `json:"rollout,omitempty"`
	Stage   int    `json:"stage,omitempty"`
	// DeleteDisk of a replace: the operator accepts that the disk is lost with the CVM.
	DeleteDisk bool      `json:"delete_disk,omitempty"`
	Reason     string    `json:"reason"`
	By         string    `json:"by"`
	At         time.Time `json:"at"`
}

// Check returns the first fault of a request, by field; nil: no fault is visible without other
// records. A request that fails Check is never carried out.
func (q QueueRequest) Check() error {
	if !idGrammar.MatchString(q.ID) {
		return fmt.Errorf("id: %.80q is not an id: letters, digits and . _ : -, at most 128 bytes", q.ID)
	}
	if err := q.checkScope(); err != nil {
		return err
	}
	if len(q.Reason) > MaxReason {
		return fmt.Errorf("reason: %d bytes, at most %d", len(q.Reason), MaxReason)
	}
	needs := q.needs()
	if needs == nil {
		return fmt.Errorf("kind: %.80q is unknown: use restart, update, replace, resolve, retry, promote or release", q.Kind)
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"slot", q.Slot != ""}, {"operation", q.Operation != ""}, {"as", q.As != ""}, {"delete_disk", q.DeleteDisk},
		{"rollout", q.Rollout != ""}, {"stage", q.Stage != 0},
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

// checkScope holds a request to the group that its id names (ScopedID): an operator of one group may
// write such ids alone.
func (q QueueRequest) checkScope() error {
	scope, _, scoped := strings.Cut(q.ID, ".")
	if !scoped {
		return nil
	}
	of := q.Group
	if g, _, err := group.ParseSlot(q.Slot); err == nil {
		of = g
	}
	if of != scope {
		return fmt.Errorf("id: %.80q is for group %.63s, and the request is for group %.63q; begin the id with the request's group, or leave out the dot", q.ID, scope, of)
	}
	return nil
}

// needs returns the fields of a request of the kind; nil: the kind is unknown.
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
	case RequestPromote:
		return map[string]bool{"rollout": true, "stage": true}
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
	case (q.Kind == RequestRetry || q.Kind == RequestPromote) && !nameGrammar.MatchString(q.Group):
		return fmt.Errorf("group: %.80q is not the name of a group", q.Group)
	case q.Rollout != "" && !idGrammar.MatchString(q.Rollout):
		return fmt.Errorf("rollout: %.80q is not an id", q.Rollout)
	case q.Operation != "" && !idGrammar.MatchString(q.Operation):
		return fmt.Errorf("operation: %.80q is not an id", q.Operation)
	case q.As != "" && q.As != ResolvedDone && q.As != ResolvedFailed:
		return fmt.Errorf("as: %.80q is neither done nor failed", q.As)
	}
	return nil
}
