package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// AcceptedSpec is the record at groups/<g>/accepted: the last spec that the leader accepted. The
// group runs under it on every coordinator and after every takeover, even after a later spec is
// stored.
type AcceptedSpec struct {
	Group string `json:"group"`
	// SpecIndex is the modify index that groups/<g>/spec had then.
	SpecIndex uint64 `json:"spec_index"`
	// Spec is the accepted text.
	Spec json.RawMessage `json:"spec"`
	// By and Request are the caller and the request of the API that wrote the spec. By is
	// WrittenToKV when no API call did, and empty in a record of an older version.
	By      string    `json:"by,omitempty"`
	Request string    `json:"request,omitempty"`
	Term    uint64    `json:"term"`
	At      time.Time `json:"at"`
}

// Applied is the record at applied/<g>: the last API call that wrote the group's spec. A
// coordinator writes it in the transaction that writes the spec, so both keys get one modify index.
// Operators have no right to write it, so its name is always that of a caller of the API.
type Applied struct {
	Group string `json:"group"`
	// By names the caller's token, at most MaxBy bytes of JSON.
	By string `json:"by"`
	// Request is the id of the call.
	Request string    `json:"request"`
	At      time.Time `json:"at"`
}

// MaxBy bounds the name of a caller in a record, in bytes of JSON.
const MaxBy = 256

// WrittenToKV is By of a spec that no API call wrote: Consul does not report whose token wrote a
// key.
const WrittenToKV = "unknown (written to Consul KV)"

// AppliedBy returns the caller and the request that wrote the spec of group g whose modify index is
// spec. A later write of the spec alone has a higher index than the record, and belongs to another
// caller. Both are empty when the stored spec has another index by now. An error means that the
// record was not read.
func AppliedBy(ctx context.Context, s Store, g string, spec uint64) (by, request string, err error) {
	key := AppliedKey(g)
	a, index, err := Read[Applied](ctx, s, key)
	switch {
	case errors.Is(err, ErrNotFound):
		return WrittenToKV, "", nil
	case len(RecordErrors(err)) > 0:
		return "unknown (" + key + " cannot be read)", "", nil // the spec is usable without the record
	case err != nil:
		return "", "", err
	case index > spec:
		return "", "", nil
	case index < spec:
		return WrittenToKV, "", nil
	}
	return a.By, a.Request, nil
}

// CheckRequestID returns an error with the grammar when id, the id of a call, does not follow it.
func CheckRequestID(id string) error {
	if !idGrammar.MatchString(id) {
		return fmt.Errorf("request_id: %.80q is not an id: letters, digits and . _ : -, at most 128 bytes", id)
	}
	return nil
}
