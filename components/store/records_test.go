package store_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/policy"
	"cadre.dev/store"
)

// TestTheFullestDecisionsFitTheirRecord: an oversized record could not be written, and the Slot
// would admit no Boot any more.
func TestTheFullestDecisionsFitTheirRecord(t *testing.T) {
	slot, long := strings.Repeat("s", 63), strings.Repeat("<", 1<<10)
	var d policy.Decisions
	for i := range 2 * policy.MaxDecisions {
		for _, what := range []policy.Decided{policy.DecidedEvict, policy.DecidedRenewRefused} {
			d = d.Append(slot, policy.DecisionEntry{
				At: time.Date(2026, 1, 1, 0, 0, 0, 999_999_999, time.UTC), What: what, By: slot, Code: policy.CodeStatementNoncanonical, Message: long,
				BootID: fmt.Sprintf("%064d", i), InstanceID: strings.Repeat("f", 40), HolderBootID: strings.Repeat("f", 64), HolderInstanceID: strings.Repeat("f", 40),
				Revision: strings.Repeat("f", 64), PolicyEpoch: math.MaxUint64, Generation: math.MaxUint64 - uint64(i),
			})
		}
	}
	d.Checks, d.ChecksBootID, d.ChecksAt = policy.Checks("", "", nil), strings.Repeat("f", 64), time.Now()
	for i, c := range d.Checks {
		details := map[policy.CheckName]string{c.Name: long}
		d.Checks[i] = policy.Checks("", "", details)[i]
	}
	put, err := store.Put(store.DecisionsKey(slot), d, 0)
	if err != nil || len(d.Entries) != policy.MaxDecisions || len(d.Refused) != policy.MaxRefused || d.Verify() != nil {
		t.Errorf("%d and %d entries: %v, %v", len(d.Entries), len(d.Refused), err, d.Verify())
	}
	t.Logf("%d bytes", len(put.Value))
}
