package operation

import "time"

// refresh has the running Boot attest again: the shell allowed To before it asked, and took
// the credentials that rest on older evidence back. Where the platform shows something else
// than To measures, no Boot could prove it, and the step is planned anew as a restart.
func (op Operation) refresh(f Facts, now time.Time) (Operation, []Effect) {
	if f.WantedHash == "" {
		return op.because("waits until what the revision measures is known"), nil
	}
	if p := f.Platform; p == nil || p.ComposeHash != f.WantedHash || !p.Shape.Shows(f.WantedShape) {
		return op.callOff(CauseUnwanted, "planned anew: the platform shows another compose file or size than the revision has, so that it takes a restart", now)
	}
	op.Call.HashWanted, op.Times.HealthyBy = f.WantedHash, now.Add(f.Limits.Healthy)
	return op.enter(Booting, now).because("waits until the boot attests again, at the new revision"), nil
}

// OutOfService reports that the member gives up its duties for op, or did, so that nobody is
// led to it. A refresh takes none away, in whatever phase it waits. While a service is restarted
// its Boot stays and may say that it serves: the service ends and starts in that time.
func (op Operation) OutOfService() bool {
	switch op.Phase {
	case Draining, Drained, Acting:
		return !op.Way.Refreshes()
	case Booting:
		return op.Way.Service != ""
	case Joining, Settling, Done, Aborted, Failed, Superseded, "":
	}
	return false
}

// unproven: a refresh that failed before any Boot proved its Revision. Its CVM was told
// nothing and is what it was.
func (op Operation) unproven() bool {
	return op.Way.Refreshes() && op.Phase == Failed && op.Entered[Joining].IsZero()
}

// unjudged: the member serves on, as it did before, and nobody knows yet how it is by what the
// refresh changed. A Boot of To has nothing but that.
func (op Operation) unjudged(f Facts) bool { return op.Way.Refreshes() && f.Unjudged != "" }
