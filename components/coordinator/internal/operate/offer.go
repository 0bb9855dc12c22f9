package operate

import (
	"context"
	"errors"
	"fmt"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
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
	offer, known := o.offer(ctx, seen.Spec.Name)
	if !known {
		return nil
	}
	return offer.Check(t)
}

// offer is the platform's offer, if the platform answers.
func (o *Operator) offer(ctx context.Context, groupName string) (offer platform.Offer, known bool) {
	offer, err := o.cfg.Platform.Offer(ctx)
	if err != nil && !errors.Is(err, context.Canceled) {
		o.cfg.Log.Warn("the platform's offer is not known", "group", groupName, "error", err)
	}
	return offer, err == nil
}

// judgeOwnSizes records which sizes of single Slots the platform does not offer, so that no step to
// such a size begins. A size that the Slot's CVM has already is not checked, as in offered. The
// template's content is no part of the answer: the other Slots of the group go on.
func (o *Operator) judgeOwnSizes(ctx context.Context, seen observe.Seen) {
	var offer *platform.Offer
	for _, own := range seen.Spec.Instances {
		if own.InstanceType == "" {
			continue
		}
		key := rollout.RefusedSize(group.SlotName(seen.Spec.Name, own.Ordinal), own.InstanceType)
		if !seen.Spec.HasOrdinal(own.Ordinal) || sizeOf(seen, own.Ordinal) == own.InstanceType {
			o.judged(key, nil)
			continue
		}
		if !o.mayTry(key) {
			continue
		}
		if offer == nil {
			answer, known := o.offer(ctx, seen.Spec.Name)
			if !known {
				return
			}
			offer = &answer
		}
		o.judged(key, offer.CheckSize(fmt.Sprintf("instance[%q].instance_type", own.Label()), own.InstanceType))
	}
}

// sizeOf is the size that the platform shows of the CVM of a Slot; "": none is known.
func sizeOf(seen observe.Seen, ordinal int) string {
	for _, s := range seen.Now.Slots {
		if s.Ordinal == ordinal && s.Instance != nil {
			return s.Instance.Shape.InstanceType
		}
	}
	return ""
}

// sizeRefused is why the platform would refuse the own size of the Slot of op, before a call gives it.
func (o *Operator) sizeRefused(seen observe.Seen, op operation.Operation) string {
	_, ordinal, err := group.ParseSlot(op.Slot)
	if err != nil || op.Call.Shapes() {
		return ""
	}
	return o.Refused()[rollout.RefusedSize(op.Slot, seen.Spec.Instance(ordinal).InstanceType)]
}

// ownSize is the own size, at a template, of the Slot of op, or of the CVM that op asks through; "": it
// has the template's.
func ownSize(seen observe.Seen, op operation.Operation, t group.Template) string {
	for _, one := range seen.Spec.Instances {
		slot := group.SlotName(seen.Spec.Name, one.Ordinal)
		if op.Slot == slot || op.Slot == "" && op.CVM.VMUUID != "" && op.CVM.VMUUID == instanceOf(seen, one.Ordinal) {
			return seen.Spec.OwnInstanceType(one.Ordinal, t)
		}
	}
	return ""
}
