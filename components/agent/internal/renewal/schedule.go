package renewal

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/agent/internal/admit"
)

// Credentials are the dates and the epoch of the credentials in force.
type Credentials struct {
	// Since is when the credentials were issued, Ends when the first of them expires.
	Since, Ends time.Time
	// Epoch of the policy that they rest on.
	Epoch uint64
}

// Parts of the life after which to renew. The later one leaves half a life, for an
// outage of all coordinators, and some time to notice its end (TOK-15).
const (
	dueFrom = 1.0 / 3
	dueTo   = 0.45
)

// lifeMost bounds the life used for the schedule. Certificates outlive tokens so that members work
// without coordinators for an hour; a late renewal would shorten that time.
const lifeMost = 15 * time.Minute

// due is when to renew: spread is from [0, 1) and differs between Boots.
func (h Credentials) due(spread float64) time.Time {
	life := min(h.Ends.Sub(h.Since), lifeMost)
	return h.Since.Add(time.Duration(float64(life) * (dueFrom + spread*(dueTo-dueFrom))))
}

// Pauses after a try that failed: the longest leaves time for several tries at the
// end of an outage of half a life. A refusal changes only with the policy.
const (
	firstPause  = time.Second
	longPause   = 15 * time.Second
	deniedPause = 30 * time.Second
)

// pause before the next try, after failures in a row; spread is from [0, 1).
func pause(failures int, denied bool, spread float64) time.Duration {
	out := longPause
	switch {
	case denied:
		out = deniedPause
	case failures < 5:
		out = min(firstPause<<max(failures-1, 0), longPause)
	}
	return out/2 + time.Duration(spread*float64(out)/2)
}

// verdict is the meaning of a try's outcome.
type verdict int

const (
	granted verdict = iota
	// again: nothing is decided; try again.
	again
	// attest: only new evidence will do.
	attest
	// denied: this Boot is not to have credentials.
	denied
)

// judge reads the error of a renewal.
func judge(err error) verdict {
	if err == nil {
		return granted
	}
	switch status.Code(err) {
	case codes.Unimplemented:
		return attest // a coordinator that knows no renewals yet
	case codes.FailedPrecondition, codes.PermissionDenied:
	default:
		return again
	}
	if admit.Code(err) == "REATTEST_REQUIRED" {
		return attest
	}
	return denied
}
