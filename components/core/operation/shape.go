package operation

import (
	"time"

	"cadre.dev/core/group"
)

// Part is one change of a CVM that takes one platform call.
type Part string

const (
	// PartCreate makes the CVM.
	PartCreate Part = "create"
	// PartDelete removes the CVM and its disk.
	PartDelete Part = "delete"
	// PartStop stops the CVM, on a platform that changes a stopped CVM only.
	PartStop Part = "stop"
	// PartRestart restarts the CVM unchanged, or starts a stopped one.
	PartRestart Part = "restart"
	// PartResources changes the CVM's instance type or grows its disk.
	PartResources Part = "resources"
	// PartOSImage changes the CVM's boot image.
	PartOSImage Part = "os_image"
	// PartCompose moves the CVM to another app-compose.json.
	PartCompose Part = "compose"
)

// StopWithin is how long a guest has to shut down before it is stopped without being asked. A guest's own shutdown
// ends its containers, which takes 10 s for each without another stop_grace_period.
const StopWithin = 2 * time.Minute

// Shape is the size and image of a CVM. In a platform's view, a zero field is unknown; in a request, it is unchanged.
type Shape struct {
	InstanceType string `json:"instance_type,omitempty"`
	OSImage      string `json:"os_image,omitempty"`
	DiskGB       int    `json:"disk_gb,omitempty"`
}

// SizeDiffers reports that the platform shows another instance type than wanted.
func (s Shape) SizeDiffers(wanted Shape) bool { return differs(s.InstanceType, wanted.InstanceType) }

// resourcesDiffer: the platform shows another size than wanted.
func (s Shape) resourcesDiffer(wanted Shape) bool {
	return s.SizeDiffers(wanted) || wanted.DiskGB > s.DiskGB && s.DiskGB != 0
}

// imageDiffers: the platform shows another image than wanted, in either spelling of the name.
func (s Shape) imageDiffers(wanted Shape) bool {
	return differs(s.OSImage, wanted.OSImage) && !group.SameOSImage(s.OSImage, wanted.OSImage)
}

// Shows reports that no field which the platform reports differs from the wanted Shape.
func (s Shape) Shows(wanted Shape) bool {
	return !s.resourcesDiffer(wanted) && !s.imageDiffers(wanted)
}
