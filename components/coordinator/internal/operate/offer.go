package operate

import (
	"context"
	"errors"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/core/group"
	"cadre.dev/platform"
)

// offered refuses a template that names an OS image or an instance type which the platform does not
// offer, before any member is drained for it. It does not check names that the CVM vm has already:
// a platform may have withdrawn them. Where the platform has no offer or no answer, the call itself
// decides.
func (o *Operator) offered(ctx context.Context, seen observe.Seen, vm string, t platform.Template) error {
	for _, i := range seen.Listing.Instances {
		if vm == "" || i.VMUUID != vm {
			continue
		}
		if group.SameOSImage(i.OSImage, t.OSImage) {
			t.OSImage = ""
		}
		if i.InstanceType == t.InstanceType {
			t.InstanceType = ""
		}
	}
	if t.OSImage == "" && t.InstanceType == "" {
		return nil
	}
	offer, err := o.cfg.Platform.Offer(ctx)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			o.cfg.Log.Warn("the platform's offer is not known", "group", seen.Spec.Name, "error", err)
		}
		return nil
	}
	return offer.Check(t)
}
