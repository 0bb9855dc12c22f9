package operation

import "time"

// LiveWithin is how long a live Boot may go without a report: its agent reports at least every 5 s.
const LiveWithin = 6 * time.Second

// gone ends an Operation when two listings in a row lack its CVM, or list another CVM in its place. No awaited event
// can arrive then.
func (op *Operation) gone(f Facts, now time.Time) (Operation, bool) {
	if op.Kind.another() || !f.PlatformKnown || op.CVM.VMUUID == "" {
		return *op, false
	}
	if !op.Seen.missing(op.CVM.gone(f.Platform), f.ObservedAt) {
		return *op, false
	}
	cause, reason := CauseVanished, "the platform lists CVM "+op.CVM.VMUUID+" no more: cadre instance replace "+op.Slot
	if op.CVM.replaced(f.Platform) {
		cause, reason = CauseReplaced, "the platform shows another CVM in place of "+op.CVM.VMUUID
	}
	return op.end(Failed, cause, reason, now), true
}

// MadeWay reports that op's call deleted the CVM that op replaces, or that the new CVM is made. From then on the
// Slot's name belongs to the new CVM. Before that, a CVM that left the listing and returned still belongs to the Slot.
func (op Operation) MadeWay() bool {
	if op.Kind != Replace {
		return false
	}
	deleted := op.CVM.VMUUID == "" && op.Call.Has(PartDelete)
	return deleted || op.Decided() || op.Call.Has(PartCreate)
}

// makesWay handles a Replace whose old CVM disappeared without its call, in two listings. Then nothing has to be
// drained or deleted.
func (op *Operation) makesWay(f Facts, now time.Time) (Operation, bool) {
	if op.Kind != Replace || op.CVM.VMUUID == "" || op.Call.Part != "" || !f.PlatformKnown {
		return *op, false
	}
	if !op.Seen.missing(f.Platform == nil, f.ObservedAt) {
		return *op, false
	}
	next := *op
	next.CVM, next.Seen.GoneSince = op.CVM.unnamed(), time.Time{}
	return next.enter(Drained, now).because("the CVM is gone by itself"), true
}

// goneQuiet: the CVM was already gone when its replacement was decided. The agent's last report was fresh then, and no
// newer report arrived.
func (op Operation) goneQuiet(f Facts, now time.Time) bool {
	return op.Kind == Replace && op.CVM.VMUUID == "" && f.PlatformKnown && f.Platform == nil && now.Sub(f.LastReportAt) >= LiveWithin
}

// isGone: the platform answered, and lists no such CVM.
func (op Operation) isGone(f Facts) bool { return f.PlatformKnown && op.CVM.gone(f.Platform) }
