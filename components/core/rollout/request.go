package rollout

import "cadre.dev/core/operation"

// RequestKind is what an operator asks for.
type RequestKind string

const (
	// RequestRestart asks for a restart of one Slot, or, while it is outdated, for its
	// update now.
	RequestRestart RequestKind = "restart"
	// RequestReplace asks for another CVM with an empty disk in place of one Slot's.
	RequestReplace RequestKind = "replace"
	// RequestResolve says how an Operation ended whose call nobody can tell the effect of.
	RequestResolve RequestKind = "resolve"
	// RequestRetry lets a failed rollout go on.
	RequestRetry RequestKind = "retry"
)

// PassedByName reports that a hold of a rollout's step is none for an operator who asks for a
// restart of that Slot by its name.
func PassedByName(predicate string) bool {
	switch predicate {
	case HoldOpportunistic, HoldPaused, HoldActionNotAllowed, HoldLeaderAsks, HoldStepDelay:
		return true
	}
	return false
}

// Request is what an operator asked for, until it is answered.
type Request struct {
	// ID is the caller's; it names the Operation that answers, so that asking twice is
	// asking once (I17).
	ID   string
	Kind RequestKind
	// Slot of a restart or replace, Operation of a resolve.
	Slot      string
	Operation string
	// As is how a resolved Operation ended: "done" or "failed".
	As     string
	Reason string
	By     string
	// Spent: an Operation bears its id already, so that nothing is to be done.
	Spent bool
}

// Deletion is an operator's will that the whole group goes.
type Deletion struct {
	// KeepCVMs leaves the CVMs on the platform; otherwise they go with their disks.
	KeepCVMs bool
	Reason   string
	By       string
}

// before: a replacement goes before a restart, which a lost CVM would keep waiting for
// ever; among the same, the least id.
func (r Request) before(other Request) bool {
	if r.Kind != other.Kind {
		return r.Kind == RequestReplace
	}
	return r.ID < other.ID
}

// joinRequests gives each member the one request about it that goes first.
func (w *world) joinRequests() {
	for _, r := range w.obs.Requests {
		if r.Spent {
			continue
		}
		switch r.Kind {
		case RequestRestart, RequestReplace:
			m := w.find(r.Slot)
			if m != nil && (m.request == nil || r.before(*m.request)) {
				m.request = &r
			}
		case RequestRetry:
			if w.retry == nil || r.ID < w.retry.ID {
				w.retry = &r
			}
		case RequestResolve:
		}
	}
}

// asked: an operator asks for kind at m.
func (m *member) asked(kind RequestKind) bool { return m.request != nil && m.request.Kind == kind }

// Resolved is what an operator said about an Operation and it has not heard yet; ok is
// false when nobody did.
func (o Observation) Resolved(op operation.Operation) (r Request, ok bool) {
	for _, r := range o.Requests {
		if r.Kind == RequestResolve && !r.Spent && r.Operation == op.ID && r.ID != op.ResolvedBy {
			return r, true
		}
	}
	return Request{}, false
}
