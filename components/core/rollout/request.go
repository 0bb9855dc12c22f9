package rollout

import (
	"cmp"
	"slices"
	"time"

	"cadre.dev/core/operation"
)

// PassedByName reports that a hold of a rollout's step does not apply when an operator requests the update of that
// Slot by its name.
func PassedByName(predicate string) bool {
	switch predicate {
	case HoldOpportunistic, HoldPaused, HoldActionNotAllowed, HoldLeaderNeedsApproval, HoldIrreversible, HoldStepDelay, HoldDomain,
		HoldStage, HoldStageBaking, HoldStagePromotion:
		return true
	}
	return false
}

// before: a replacement goes before a restart or an update, because a lost CVM would keep these waiting without end.
// An update goes before a restart, which may be held until the update is done. Among equal kinds, the least id goes
// first.
func (r Request) before(other Request) bool {
	rank := func(k RequestKind) int {
		return slices.Index([]RequestKind{RequestReplace, RequestUpdate, RequestRestart}, k)
	}
	return cmp.Or(cmp.Compare(rank(r.Kind), rank(other.Kind)), cmp.Compare(r.ID, other.ID)) < 0
}

// joinRequests gives each member its first request in that order.
func (w *world) joinRequests() {
	for _, r := range w.obs.Requests {
		if r.Spent {
			continue
		}
		switch r.Kind {
		case RequestRestart, RequestUpdate, RequestReplace:
			m := w.find(r.Slot)
			if m != nil && !w.outlived(m, r) && (m.request == nil || r.before(*m.request)) {
				m.request = &r
			}
		case RequestRetry:
			if w.retry == nil || r.ID < w.retry.ID {
				w.retry = &r
			}
		case RequestPromote:
			if w.promote == nil || r.ID < w.promote.ID {
				w.promote = &r
			}
		case RequestResolve:
		}
	}
}

// backAfter is how much newer than a request a listing must be to prove that its CVM returned. The request was made by
// a coordinator whose clock may differ.
const backAfter = time.Minute

// outlived: the request names a CVM that m no longer has, or a CVM that was gone and has returned. The request may be
// days old, or recorded twice. Now it would cost another disk, or a healthy disk.
func (w *world) outlived(m *member, r Request) bool {
	other := r.VMUUID != "" && r.VMUUID != m.record.VMUUID || r.InstanceID != "" && r.InstanceID != m.record.InstanceID
	i := m.seen.Instance
	// A listing older than the request may still show a CVM that is gone now.
	newer := w.obs.At.Sub(r.At) > backAfter
	back := i != nil && newer && (r.VMUUID != "" && i.VMUUID == r.VMUUID || r.VMUUID == "" && i.InstanceID == r.InstanceID)
	return other || r.Gone && w.obs.Platform.Known && back
}

// namesService: an operator asks for a restart of only one service of m.
func (m *member) namesService() bool { return m.asked(RequestRestart) && m.request.Service != "" }

// namesCVM: an operator asks for a restart of m's CVM at its current Revision. The request waits for the end of an
// open step.
func (m *member) namesCVM() bool {
	return m.open == nil && m.asked(RequestRestart) && m.request.Service == ""
}

// asked: an operator requests kind for m.
func (m *member) asked(kind RequestKind) bool { return m.request != nil && m.request.Kind == kind }

// Resolved returns an operator's decision about an Operation that its record does not contain yet. ok is false if no
// such decision exists.
func (o Observation) Resolved(op operation.Operation) (r Request, ok bool) {
	for _, r := range o.Requests {
		if r.Kind == RequestResolve && !r.Spent && r.Operation == op.ID && r.ID != op.Request.ResolvedBy {
			return r, true
		}
	}
	return Request{}, false
}
