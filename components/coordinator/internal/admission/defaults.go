package admission

import (
	"time"

	"cadre.dev/core/policy"
)

// ReattestAfter is how long evidence is good for renewals.
const ReattestAfter = 24 * time.Hour

// mayRenewByEpoch allows what was appraised under the present policy, lately.
func mayRenewByEpoch(a policy.Admission, sp policy.SlotPolicy, _ policy.ImagePolicy, now time.Time) policy.Decision {
	switch {
	case !now.Before(a.AttestedAt.Add(ReattestAfter)):
		return policy.Decision{Code: policy.CodeReattestRequired, Message: "the evidence is older than a day"}
	case sp.Epoch != a.Epoch:
		return policy.Decision{Code: policy.CodeReattestRequired, Message: "the slot's policy changed since the evidence was appraised"}
	}
	return policy.Decision{Allowed: true, Revision: a.Revision}
}
