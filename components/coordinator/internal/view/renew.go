package view

import (
	"time"

	"cadre.dev/core/policy"
)

// MayRenew is policy.MayRenew with the revocations that this coordinator reads, so that a
// revocation takes effect without a leader. Before the first View it refuses.
func (w *Watcher) MayRenew(a policy.Admission, sp policy.SlotPolicy, ip policy.ImagePolicy, now time.Time) policy.Decision {
	v, _ := w.Latest()
	if v == nil {
		return policy.Decision{Code: policy.CodeGateUnreadable, Message: "records are not readable yet"}
	}
	return policy.MayRenew(a, sp.Revoking(v.Gate.Revocations), v.Judging(ip), now)
}
