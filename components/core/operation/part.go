package operation

import "slices"

// parts returns the changes that the Operation still has to make, in order. The compose file is the last change, so that
// the first admitted Boot shows all changes.
func (op Operation) parts(f Facts) []Part {
	if op.Undoes() || op.keptDown(f) {
		return []Part{PartRestart}
	}
	var all []Part
	switch op.Kind {
	case Create:
		all = []Part{PartCreate}
	case Delete:
		all = []Part{PartDelete}
	case Restart, Stop:
		all = []Part{PartRestart}
	case Replace:
		all = []Part{PartCreate}
		// From its creation on, the names are the new CVM's, and no call deletes the new CVM.
		if !op.Call.Makes() && op.CVM.VMUUID != "" && !op.CVM.gone(f.Platform) {
			all = []Part{PartDelete, PartCreate}
		}
	case Update:
		all = op.changes(f)
	case Drain:
	}
	all = slices.DeleteFunc(all, op.Call.Has)
	switch runs := (f.StopFirst || op.Kind == Stop) && op.Kind.InPlace() && !op.isStopped(f); {
	case !runs:
	case op.Call.Has(PartStop) && op.startsAgain(f):
		return nil // the start of the host after the stop is the wanted restart
	case len(all) > 0:
		return slices.Insert(all, 0, PartStop) // again, if the host started the CVM after a stop
	}
	return all
}

// isStopped: the platform says that the CVM stays down until it is started.
func (op Operation) isStopped(f Facts) bool { return f.Platform != nil && f.Platform.Stopped }

// changes returns the parts of an Update: the platform's differences from the wanted state. A CVM without a difference
// still gets a call, for the Boot that proves the Revision. No platform shows env; the record holds the last values. A
// platform that stops first takes all changes in one call.
func (op Operation) changes(f Facts) []Part {
	var all []Part
	p := f.Platform
	if f.StopFirst {
		return []Part{PartCompose}
	}
	if p != nil && p.Shape.resourcesDiffer(f.WantedShape) {
		all = append(all, PartResources)
	}
	if p != nil && p.Shape.imageDiffers(f.WantedShape) {
		all = append(all, PartOSImage)
	}
	same := p != nil && f.WantedHash != "" && p.ComposeHash == f.WantedHash
	if !same || f.EnvDiffers || f.OwnEnv != f.GivenEnv || len(all) == 0 && len(op.Call.Applied) == 0 {
		all = append(all, PartCompose)
	}
	return all
}

// keptDown: the CVM has its content and stays down until it is started. A platform that stops first starts nothing, and
// a leader may die between the creation of a CVM and its start. Some other platforms only note an Update of a CVM that
// was stopped before. A CVM that ran meanwhile was stopped by its new software.
func (op Operation) keptDown(f Facts) bool {
	if !op.isStopped(f) || op.Call.Has(PartRestart) || !op.Seen.RunningSince.IsZero() {
		return false
	}
	accepted := !op.Entered[Booting].IsZero()
	switch op.Kind {
	case Update:
		return accepted && op.Before.Stopped || f.StopFirst && (accepted || op.Call.Has(PartCompose))
	case Create, Replace:
		return accepted && f.StopFirst
	case Restart, Delete, Drain, Stop:
	}
	return false
}

// upMeanwhile: the awaited Boot came before the start of its CVM was called. A start made now would treat that Boot as
// the old Boot, and wait for another.
func (op Operation) upMeanwhile(f Facts) bool {
	changed := op.Kind == Update && (!op.Entered[Booting].IsZero() || op.Call.Has(PartCompose))
	stopped := op.startsAgain(f) && (op.Call.Has(PartStop) || op.Call.Part == PartStop && !op.Call.InVain())
	return (changed || stopped) && op.newBoot(f)
}

// bootedSince: a Boot of the CVM came after the last call, which the call did not ask for anything.
func (op Operation) bootedSince(f Facts) bool {
	a := f.Admission
	return op.CVM.admits(a) && a.BootID != "" && a.BootID != op.Before.BootID
}

// change returns the shape that the call of op's Part requests.
func (op Operation) change(f Facts) Shape {
	var s Shape
	switch op.Call.Part {
	case PartCompose:
		if !f.StopFirst {
			break
		}
		s = f.WantedShape
		if p := f.Platform; p != nil && s.DiskGB <= p.Shape.DiskGB {
			s.DiskGB = 0 // a disk only grows
		}
	case PartOSImage:
		s.OSImage = f.WantedShape.OSImage
	case PartResources:
		if f.Platform == nil || f.Platform.Shape.SizeDiffers(f.WantedShape) {
			s.InstanceType = f.WantedShape.InstanceType
		}
		if f.Platform == nil || f.WantedShape.DiskGB > f.Platform.Shape.DiskGB {
			s.DiskGB = f.WantedShape.DiskGB
		}
		if f.Platform != nil && f.Platform.Shape.imageDiffers(f.WantedShape) {
			s.OSImage = f.WantedShape.OSImage // some platforms change both with one boot
		}
	case PartCreate, PartDelete, PartStop, PartRestart, "":
	}
	return s
}

// Touched reports that the Operation had an effect, so it can no longer be called off.
func (op Operation) Touched() bool {
	return len(op.Call.Applied) > 0 || op.Set.Leaves || op.Call.stops()
}

// shown reports that the platform shows the effect of part p.
func (op Operation) shown(p Part, f Facts) bool {
	seen := f.Platform
	if !op.CVM.atRest(seen) {
		return false
	}
	switch p {
	case PartResources:
		return !seen.Shape.resourcesDiffer(f.WantedShape)
	case PartOSImage:
		return !seen.Shape.imageDiffers(f.WantedShape)
	case PartCompose:
		return seen.ComposeHash == f.WantedHash && (!f.StopFirst || seen.Shape.Shows(f.WantedShape))
	case PartStop:
		return seen.Stopped
	case PartRestart:
		return !f.StopFirst || !seen.Stopped
	case PartCreate, PartDelete, "":
	}
	return true
}

// wants reports that part is the next part to apply.
func (op Operation) wants(part Part, f Facts) bool {
	parts := op.parts(f)
	return len(parts) > 0 && parts[0] == part
}

// formerIsBack: the listed CVM is a former CVM of the Slot, not the CVM to be made.
func (op Operation) formerIsBack(f Facts) bool {
	return f.Platform != nil && f.Platform.Former && op.wants(PartCreate, f)
}

// stoppedInVain: the step stopped its CVM, and no change of the content is certain.
func (op Operation) stoppedInVain() bool {
	return op.Kind == Update && op.Call.stops() && !op.Call.changes()
}

// Undoes reports that the open step gave its change up, and only starts its CVM again.
func (op Operation) Undoes() bool {
	return op.stoppedInVain() && op.Failure.Cause != "" && !op.Phase.Ended()
}
