package view

import (
	"time"

	"cadre.dev/core/policy"
)

// MayRenew is policy.MayRenew with the revocations that this coordinator sees itself,
// so that one bites without a leader. Before the first View it is no.
func (w *Watcher) MayRenew(a policy.Admission, sp policy.SlotPolicy, ip policy.ImagePolicy, now time.Time) policy.Decision {
	return w.judged(policy.MayRenew, a, sp, ip, now)
}

// MayStay is policy.MayStay likewise. Before the first View it is yes: that nothing is
// known is no reason to evict.
func (w *Watcher) MayStay(a policy.Admission, sp policy.SlotPolicy, ip policy.ImagePolicy, now time.Time) policy.Decision {
	d := w.judged(policy.MayStay, a, sp, ip, now)
	if d.Code == policy.CodeGateUnreadable {
		return policy.Decision{Allowed: true, Revision: a.Revision}
	}
	return d
}

func (w *Watcher) judged(judge func(policy.Admission, policy.SlotPolicy, policy.ImagePolicy, time.Time) policy.Decision,
	a policy.Admission, sp policy.SlotPolicy, ip policy.ImagePolicy, now time.Time,
) policy.Decision {
	v, _ := w.Latest()
	if v == nil {
		return policy.Decision{Code: policy.CodeGateUnreadable, Message: "records are not readable yet"}
	}
	return judge(a, sp.Revoking(v.Gate.Revocations), ip, now)
}
