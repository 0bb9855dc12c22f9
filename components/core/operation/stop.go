package operation

import (
	"cmp"
	"time"
)

// A Stop is a restart that pauses between its two calls. While it pauses, the Slot's disk, names and records stay, and
// no other step of the Slot begins. Facts.Unwanted ends the pause.

// startsAgain: after its stop, the step starts the CVM.
func (op Operation) startsAgain(f Facts) bool {
	return op.Kind == Restart || op.Kind == Stop && f.Unwanted != ""
}

// StaysStopped reports that op stopped its CVM and keeps it stopped.
func (op Operation) StaysStopped() bool {
	return op.Kind == Stop && op.Phase == Drained && op.Call.Has(PartStop)
}

// staysStopped keeps a stopped CVM as it is. A CVM that its host started is stopped again. The deletion of the group
// ends the step, since a removal needs no start.
func (op Operation) staysStopped(f Facts, now time.Time) (next Operation, rests bool) {
	if op.Kind != Stop {
		return op, false
	}
	if next, ended := op.gone(f, now); ended {
		return next, true
	}
	switch {
	case f.Ending:
		return op.end(Done, "", "the group is being deleted", now), true
	case !op.isStopped(f):
		return op, false
	}
	if !op.Call.Has(PartStop) {
		op.Call = op.Call.with(PartStop)
	}
	if f.Unwanted != "" {
		return op, false
	}
	op.Times.HealthyBy = time.Time{} // no deadline ends the pause
	op.Outage.begin(now)
	reason := "stopped with its disk, until its group is to run and its turn comes"
	if f.Paused {
		reason += "; " + cmp.Or(f.PausedBy, "paused")
	}
	return op.because(reason), true
}
