package store

import "time"

// Pause is the operator's switch at control/pause/<g>: the rollout of the group
// starts nothing new while it exists.
type Pause struct {
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

// Freeze is the operator's switch at control/freeze: nothing voluntary that
// disrupts starts in any group while it exists.
type Freeze struct {
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

// RequireApproval is the operator's switch at control/require-approval: while it
// exists, every group's new Revisions wait for an approval. Who may write specs but
// not control/ cannot turn it off.
type RequireApproval struct {
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

// RaisedTerm is the operator's record at control/term: the next Term is above Term,
// which is at least 1 and at most MaxRaisedTerm. It never lowers one.
type RaisedTerm struct {
	Term   uint64    `json:"term"`
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at,omitzero"`
}

// RequestKind is what an operator asks for through the queue.
type RequestKind string

const (
	// RequestRestart asks for a restart of one Slot at its Revision.
	RequestRestart RequestKind = "restart"
	// RequestRelease ends the hold of a Slot that two Boots took from each other.
	RequestRelease RequestKind = "release"
)

// QueueRequest is one request of an operator at control/queue/<id>. The leader
// deletes it in the transaction that records its Operation, or releases the Slot.
type QueueRequest struct {
	ID   string      `json:"id"`
	Kind RequestKind `json:"kind"`
	// Group may be left out: Slot names are unique in the cluster.
	Group  string    `json:"group,omitempty"`
	Slot   string    `json:"slot"`
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
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
	By         string    `json:"by"`
}

// TermRecord is the value of the Term key.
type TermRecord struct {
	Term uint64 `json:"term"`
}

// FoundingRecord says which founding of the cluster the records are of.
type FoundingRecord struct {
	// Founding in the one form of core/founding.
	Founding string    `json:"founding"`
	At       time.Time `json:"at"`
	// By is the coordinator that wrote it.
	By string `json:"by"`
}
