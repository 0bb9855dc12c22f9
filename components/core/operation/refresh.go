package operation

import "time"

// refresh has the running Boot attest again. The shell allowed To first, and revoked the credentials that rest on
// older evidence. If the platform shows another state than To measures, no Boot could prove To. The step is then
// planned again as a restart.
func (op Operation) refresh(f Facts, now time.Time) (Operation, []Effect) {
	if f.WantedHash == "" {
		return op.because("waits until what the revision measures is known"), nil
	}
	if p := f.Platform; p == nil || p.ComposeHash != f.WantedHash || !p.Shape.Shows(f.WantedShape) {
		return op.callOff(CauseUnwanted, "planned again: the platform shows another compose file or size than the revision has, so that it takes a restart", now)
	}
	op.Call.HashWanted, op.Times.HealthyBy = f.WantedHash, now.Add(f.Limits.Healthy)
	return op.enter(Booting, now).because("waits until the boot attests again, at the new revision"), nil
}

// OutOfService reports that the member gives up its duties for op, or already did, so that no client is routed to it.
// A refresh removes no duties in any phase. During a service restart the Boot stays and may report that it serves,
// while the service ends and starts.
func (op Operation) OutOfService() bool {
	switch op.Phase {
	case Draining, Drained, Acting:
		return !op.Way.Refreshes()
	case Booting:
		return op.Way.Service != ""
	case Joining, Settling, Done, Aborted, Failed, "":
	}
	return false
}

// unproven: a refresh failed before any Boot proved its Revision. Its CVM received no change.
func (op Operation) unproven() bool {
	return op.Way.Refreshes() && op.Phase == Failed && op.Entered[Joining].IsZero()
}

// unjudged: a refreshed member serves as before, and its health under the refreshed checks is not known yet. A new
// Boot of To is judged only by these checks.
func (op Operation) unjudged(f Facts) bool { return op.Way.Refreshes() && f.Unjudged != "" }
