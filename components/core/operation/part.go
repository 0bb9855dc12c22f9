package operation

import (
	"slices"

	"cadre.dev/core/group"
)

// Part is one change of a CVM that takes one platform call.
type Part string

const (
	// PartCreate makes the CVM.
	PartCreate Part = "create"
	// PartDelete removes the CVM and its disk.
	PartDelete Part = "delete"
	// PartRestart restarts the CVM unchanged.
	PartRestart Part = "restart"
	// PartResources changes the CVM's instance type or grows its disk.
	PartResources Part = "resources"
	// PartOSImage changes the CVM's boot image.
	PartOSImage Part = "os_image"
	// PartCompose moves the CVM to another app-compose.json.
	PartCompose Part = "compose"
)

// Shape is the size and image of a CVM. In a platform's view, a zero field is unknown; in a request, it is unchanged.
type Shape struct {
	InstanceType string `json:"instance_type,omitempty"`
	OSImage      string `json:"os_image,omitempty"`
	DiskGB       int    `json:"disk_gb,omitempty"`
}

// resourcesDiffer: the platform shows another size than wanted.
func (s Shape) resourcesDiffer(wanted Shape) bool {
	return differs(s.InstanceType, wanted.InstanceType) || wanted.DiskGB > s.DiskGB && s.DiskGB != 0
}

// imageDiffers: the platform shows another image than wanted, in either spelling of the name.
func (s Shape) imageDiffers(wanted Shape) bool {
	return differs(s.OSImage, wanted.OSImage) && !group.SameOSImage(s.OSImage, wanted.OSImage)
}

// Shows reports that no field which the platform reports differs from the wanted Shape.
func (s Shape) Shows(wanted Shape) bool {
	return !s.resourcesDiffer(wanted) && !s.imageDiffers(wanted)
}

// parts returns the changes that the Operation still has to make, in order. The compose file is last, so that the
// first admitted Boot shows all changes.
func (op Operation) parts(f Facts) []Part {
	var all []Part
	switch op.Kind {
	case Create:
		all = []Part{PartCreate}
	case Delete:
		all = []Part{PartDelete}
	case Restart:
		all = []Part{PartRestart}
	case Replace:
		all = []Part{PartCreate}
		// From its creation on, the names are the new CVM's, and no call deletes the new CVM.
		if !op.Call.makes() && op.CVM.VMUUID != "" && !op.CVM.gone(f.Platform) {
			all = []Part{PartDelete, PartCreate}
		}
	case Update:
		all = op.changes(f)
	case Drain:
	}
	return slices.DeleteFunc(all, op.Call.Has)
}

// changes returns the parts of an Update: the platform's differences from the wanted state. A CVM without a difference
// still gets a call, for the Boot that proves the Revision. No platform shows env; the record holds the last values. A
// CVM that stays down afterwards is started.
func (op Operation) changes(f Facts) []Part {
	var all []Part
	p := f.Platform
	if op.keptDown(f) {
		return []Part{PartRestart}
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

// keptDown: the CVM was stopped before its Update, and some platforms only note an Update of a stopped CVM. The CVM
// has been stopped since, so no boot would come. A CVM that ran meanwhile was stopped by its new software.
func (op Operation) keptDown(f Facts) bool {
	p := f.Platform
	return op.Kind == Update && op.Before.Stopped && !op.Entered[Booting].IsZero() && op.Seen.RunningSince.IsZero() &&
		p != nil && p.Stopped && !op.Call.Has(PartRestart)
}

// upMeanwhile: the Boot that the Update waits for came before the start of its CVM was called. A start made now would
// treat that Boot as the old Boot, and wait for another.
func (op Operation) upMeanwhile(f Facts) bool {
	return op.Kind == Update && !op.Entered[Booting].IsZero() && op.newBoot(f)
}

// change returns the shape that the call of op's Part requests.
func (op Operation) change(f Facts) Shape {
	var s Shape
	switch op.Call.Part {
	case PartOSImage:
		s.OSImage = f.WantedShape.OSImage
	case PartResources:
		if f.Platform == nil || differs(f.Platform.Shape.InstanceType, f.WantedShape.InstanceType) {
			s.InstanceType = f.WantedShape.InstanceType
		}
		if f.Platform == nil || f.WantedShape.DiskGB > f.Platform.Shape.DiskGB {
			s.DiskGB = f.WantedShape.DiskGB
		}
		if f.Platform != nil && f.Platform.Shape.imageDiffers(f.WantedShape) {
			s.OSImage = f.WantedShape.OSImage // some platforms change both with one boot
		}
	case PartCreate, PartDelete, PartRestart, PartCompose, "":
	}
	return s
}

// touched: the Operation had an effect, so it can no longer be called off.
func (op Operation) touched() bool { return len(op.Call.Applied) > 0 || op.Set.Leaves }

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
		return seen.ComposeHash == f.WantedHash
	case PartCreate, PartDelete, PartRestart, "":
	}
	return true
}
