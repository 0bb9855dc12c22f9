package operation

import "time"

type effectSight int

const (
	effectUnknown effectSight = iota
	effectSeen
	effectAbsent
)

// readBack derives from the platform and the admissions whether the last call had an effect. A task in progress
// decides nothing; its effect shows when the task ends. Absence needs a listing made after the call had time to show.
func (op Operation) readBack(f Facts, now time.Time) effectSight {
	if !f.PlatformKnown || f.Duplicates > 0 {
		return effectUnknown
	}
	settled := op.Call.settled(f, now)
	if t := f.Task; t != nil {
		// The call arrived. While the platform works on the call, the call is never repeated.
		if t.InProgress {
			return effectUnknown
		}
		return effectSeen
	}
	switch {
	case op.Call.Part == PartStop:
		return op.readBackStop(f, settled, now)
	case op.Call.Part == PartCompose && f.StopFirst:
		return op.readBackWritten(f, settled)
	case op.Call.Part == PartRestart && op.Kind != Delete:
		return op.readBackInPlace(f, settled, now)
	case op.Call.Part == PartCreate || op.Kind == Create:
		return presence(f.Platform != nil && !f.Platform.Former, settled)
	case op.Call.Part == PartDelete || op.Kind == Delete:
		if f.Platform != nil && f.Platform.InProgress {
			return effectUnknown // already terminating, not deleted again (R68)
		}
		return presence(op.CVM.gone(f.Platform), settled)
	case op.Call.Part == PartResources || op.Call.Part == PartOSImage:
		return op.readBackShape(f, settled)
	}
	return op.readBackInPlace(f, settled, now)
}

// readBackStop decides for a stop. A CVM also halts without a call, and a stop that arrives after the next start
// would end the member (I16). A step that is to be called off waits until its guest would have shut down.
func (op Operation) readBackStop(f Facts, settled bool, now time.Time) effectSight {
	if !op.CVM.atRest(f.Platform) || !settled {
		return effectUnknown
	}
	ignored := now.Sub(op.Call.IssuedAt) >= StopWithin || !op.CallsOff(f)
	return presence(f.Platform.Stopped, ignored)
}

// readBackWritten decides for the one call that changes a stopped CVM, by the hash together with the shape. The files
// of a stopped CVM can be written again without harm, so env values that nothing shows are written again. A CVM that
// runs meanwhile may have booted the files of before, or half of the new ones: it is stopped and written again, unless
// its Boot proves To.
func (op Operation) readBackWritten(f Facts, settled bool) effectSight {
	if !op.CVM.atRest(f.Platform) {
		return effectUnknown
	}
	tells := op.hashTells() || settled && !f.EnvDiffers && op.Call.OwnEnv == f.GivenEnv
	there := tells && op.shown(PartCompose, f) && (f.Platform.Stopped || op.newBoot(f))
	return presence(there, settled)
}

// readBackShape decides for a change that the platform shows in its listing.
func (op Operation) readBackShape(f Facts, settled bool) effectSight {
	switch {
	case !op.CVM.atRest(f.Platform):
		return effectUnknown
	case op.shown(op.Call.Part, f):
		return effectSeen
	case settled:
		return effectAbsent
	}
	return effectUnknown
}

func presence(there, settled bool) effectSight {
	switch {
	case there:
		return effectSeen
	case settled:
		return effectAbsent
	}
	return effectUnknown
}

// readBackInPlace decides for a CVM that stays. Where old and new differ, the hash decides, or a new Boot at the wanted
// Revision. Restarts and updates under the same hash leave signs that an earlier call or the host may have left as well: a
// new Boot, a CVM that runs, the platform's update time. This call may then still come, and end a member or start a
// stopped CVM. Such signs therefore decide only after the time within which an effect shows (I16), as does the old
// Boot's report.
func (op Operation) readBackInPlace(f Facts, settled bool, now time.Time) effectSight {
	p := f.Platform
	if op.givesUnseen(f) {
		return op.readBackEnv(f, settled)
	}
	if op.newBoot(f) && (settled || op.hashTells()) {
		return effectSeen
	}
	if !op.CVM.atRest(p) {
		return effectUnknown
	}
	if op.hashTells() {
		switch {
		case p.ComposeHash == op.Call.HashWanted:
			return effectSeen
		case p.ComposeHash == op.Call.HashBefore && settled:
			return effectAbsent
		}
		return effectUnknown
	}
	// The CVM is still down, so another start does no harm. Healing calls its step off after that time: the call stays
	// undecided, and a start that shows later does no harm.
	patient := op.Actor == ActorHealing || now.Sub(op.Entered[Acting]) < f.Limits.Unknown
	asItWas := !p.Running && (op.Call.Part == PartRestart || op.Before.Stopped)
	switch {
	case !settled:
	case op.Call.updated(p) || f.StopFirst && p.Running:
		return effectSeen
	case asItWas && patient || op.Call.outlived(op.Before.BootID, f):
		return effectAbsent
	}
	return effectUnknown
}

// givesUnseen: the call gives env values under an unchanged compose hash. Any Boot then proves the Revision, even a
// Boot that started before the call was made.
func (op Operation) givesUnseen(f Facts) bool {
	return op.Call.Part == PartCompose && op.Kind == Update && !op.hashTells() && (f.EnvDiffers || op.Call.OwnEnv != f.GivenEnv)
}

// readBackEnv decides by the platform's update time. Without an update time, the call repeats the same values, at the
// price of one more boot in the step of this Slot.
func (op Operation) readBackEnv(f Facts, settled bool) effectSight {
	if !op.CVM.atRest(f.Platform) || !settled {
		return effectUnknown
	}
	return presence(op.Call.updated(f.Platform), settled)
}

// showsItself reports whether the platform's listing of the CVM proves the call's effect: a size, an image, or a hash
// that changes. Only the call can have changed these.
func (op Operation) showsItself() bool {
	switch op.Call.Part {
	case PartResources, PartOSImage:
		return true
	case PartCompose:
		return op.hashTells()
	case PartCreate, PartDelete, PartStop, PartRestart, "":
	}
	return false
}

// hashTells reports that the compose hash identifies the CVM's content.
func (op Operation) hashTells() bool {
	return op.Kind == Update && op.Call.movesHash()
}

// newBoot reports that a new Boot holds the Slot, at To (R4).
func (op Operation) newBoot(f Facts) bool {
	a := f.Admission
	if !op.CVM.admits(a) || a.BootID == "" || a.Revision != op.To {
		return false
	}
	return a.BootID != op.Before.BootID || op.Way.BootStays() // or the Boot may have returned meanwhile
}

// refusal returns a refusal newer than the call, for example REVISION_NOT_ALLOWED, or nil. A refusal does not end the
// wait: the policy may follow.
func (op Operation) refusal(f Facts) *RefusalView {
	r := f.Refusal
	if r == nil || r.At.Before(op.Call.IssuedAt) || r.At.Before(op.Entered[Drained]) {
		return nil
	}
	return r
}
