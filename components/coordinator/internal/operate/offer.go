package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/view"
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

// judgeSizes records which sizes of single Slots the platform does not offer, so that no step to such a
// size begins. The template's content is no part of the answer: the other Slots of the group go on. An
// accepted size is not asked about again until the step's own preparation.
func (o *Operator) judgeSizes(ctx context.Context, v *view.View, seen observe.Seen) {
	slots := slices.Clip(seen.Now.Slots)
	for _, own := range seen.Spec.Instances { // a Slot without a record is not observed yet
		name := group.SlotName(seen.Spec.Name, own.Ordinal)
		if own.InstanceType != "" && !slices.ContainsFunc(seen.Now.Slots, func(s rollout.SlotObservation) bool { return s.Slot == name }) {
			slots = append(slots, rollout.SlotObservation{Slot: name, Ordinal: own.Ordinal})
		}
	}
	var offer *platform.Offer
	for _, s := range slots {
		shown := ""
		if s.Instance != nil {
			shown = s.Instance.Shape.InstanceType
		}
		size := loneSize(v, seen.Spec, s.Ordinal, shown)
		if !o.sizeOpen(s.Slot, size) || !o.mayTry(rollout.RefusedSize(s.Slot, size)) {
			continue
		}
		if offer == nil {
			answer, known := o.offer(ctx, seen.Spec.Name)
			if !known {
				return
			}
			offer = &answer
		}
		_ = o.judgedSize(*offer, seen.Spec, s.Ordinal, size) // the plan reads the record of it
	}
}

// loneSize is the size that the platform is asked about for one Slot alone, since the Slot's CVM shows
// another size than it wants at its present Revision: the Slot's own size, or the template's after the
// own size was removed. A size that the CVM has already is not checked, as in offered; "": no question.
// A new CVM is asked about for an own size only.
func loneSize(v *view.View, spec group.Spec, ordinal int, shown string) string {
	own, slot := "", group.SlotName(spec.Name, ordinal)
	if spec.HasOrdinal(ordinal) {
		own = spec.Instance(ordinal).InstanceType
	}
	if shown == "" {
		return own
	}
	at := func(revision string) string {
		t, _ := templateOf(v, spec, revision)
		return cmp.Or(own, t.InstanceType)
	}
	size := at(v.Slots[slot].Value.Assigned)
	if size == "" || size == shown {
		return ""
	}
	// A step to another Revision assigns it at once. The size of that Revision is its own question.
	if op, open := v.OpenOperation(slot); open && op.Value.From != "" {
		size = at(op.Value.From)
	}
	if size == shown {
		return ""
	}
	return size
}

// sizeOpen: the platform has not accepted the size of one Slot yet. An answer about an earlier size of the
// Slot is forgotten.
func (o *Operator) sizeOpen(slot, size string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if last := o.sizes[slot]; last.name != "" && last.name != size {
		delete(o.refused, rollout.RefusedSize(slot, last.name))
		delete(o.notBefore, rollout.RefusedSize(slot, last.name))
		delete(o.sizes, slot)
	}
	return size != "" && !o.sizes[slot].accepted
}

// judgedSize records the platform's answer about the size of one Slot.
func (o *Operator) judgedSize(offer platform.Offer, spec group.Spec, ordinal int, size string) error {
	field, slot := "template.instance_type", group.SlotName(spec.Name, ordinal)
	if own := spec.Instance(ordinal); own.InstanceType == size {
		field = fmt.Sprintf("instance[%q].instance_type", own.Label())
	}
	err := offer.CheckSize(field, size)
	o.judged(rollout.RefusedSize(slot, size), err)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sizes[slot] = askedSize{name: size, accepted: err == nil}
	return err
}

// askedSize is a size that the platform was asked about for one Slot.
type askedSize struct {
	name     string
	accepted bool
}

// sizeOffered is the last check of the size of the Slot of op before its first call that gives a size. The
// platform may have withdrawn a size that it accepted before.
func (o *Operator) sizeOffered(ctx context.Context, v *view.View, seen observe.Seen, op operation.Operation) error {
	if op.Slot == "" || op.Call.Shapes() {
		return nil
	}
	_, ordinal, err := group.ParseSlot(op.Slot)
	if err != nil {
		return err
	}
	size := loneSize(v, seen.Spec, ordinal, sizeOf(seen, ordinal))
	if size == "" {
		return nil
	}
	offer, known := o.offer(ctx, seen.Spec.Name)
	if !known {
		return nil
	}
	return o.judgedSize(offer, seen.Spec, ordinal, size)
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

// sizeRefused is why the platform would refuse the size of the Slot of op, before a call gives it.
func (o *Operator) sizeRefused(v *view.View, seen observe.Seen, op operation.Operation) string {
	_, ordinal, err := group.ParseSlot(op.Slot)
	if err != nil || op.Call.Shapes() {
		return ""
	}
	t, _ := templateOf(v, seen.Spec, op.To)
	return o.Refused()[rollout.RefusedSize(op.Slot, cmp.Or(seen.Spec.OwnInstanceType(ordinal, t), t.InstanceType))]
}

// sizeApart is the size, at a template, of a Slot whose CVM shows the size shown, if it is no reason for or
// against the template; "": it is one.
func sizeApart(v *view.View, spec group.Spec, ordinal int, shown string, t group.Template) string {
	if own := spec.OwnInstanceType(ordinal, t); own != "" || loneSize(v, spec, ordinal, shown) != t.InstanceType {
		return own
	}
	return t.InstanceType
}

// apartOf is sizeApart of the Slot of op, or of the CVM that op asks through.
func apartOf(v *view.View, seen observe.Seen, op operation.Operation, t group.Template) string {
	_, ordinal, err := group.ParseSlot(op.Slot)
	for _, s := range seen.Now.Slots {
		if op.Slot == "" && s.Instance != nil && s.Instance.VMUUID == op.CVM.VMUUID {
			ordinal, err = s.Ordinal, nil
		}
	}
	if err != nil {
		return ""
	}
	return sizeApart(v, seen.Spec, ordinal, sizeOf(seen, ordinal), t)
}
