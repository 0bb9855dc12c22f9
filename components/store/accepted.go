package store

import (
	"encoding/json"
	"time"
)

// AcceptedSpec is the record at groups/<g>/accepted: the last spec that the leader
// judged fit. A group is run by it, whatever is stored since, on every coordinator and
// after every takeover.
type AcceptedSpec struct {
	Group string `json:"group"`
	// SpecIndex is the modify index that groups/<g>/spec had then.
	SpecIndex uint64 `json:"spec_index"`
	// Spec is the accepted text.
	Spec json.RawMessage `json:"spec"`
	Term uint64          `json:"term"`
	At   time.Time       `json:"at"`
}
