package operate

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
	"cadre.dev/platform"
	"cadre.dev/store"
)

// call makes the one platform call that the record announces, and keeps its answer for the next
// Advance. The call ends before the Lease can (R61).
func (o *Operator) call(ctx context.Context, lease store.Lease, seen observe.Seen, op operation.Operation, effect operation.Effect) {
	log := o.cfg.Log.With("group", op.Group, "operation", op.ID, "slot", op.Slot, "instance", op.CVM.InstanceID, "term", op.Term)
	remaining := awaitRemaining(ctx, lease)
	if remaining < minRemaining {
		// No call was sent: a successor, or this process with a new Lease, finds no effect.
		log.Warn("platform call not made: the lease would not outlast it")
		return
	}
	under, cancel := context.WithTimeout(lease.Context(), min(o.cfg.Timing.MaxCallTimeout, remaining))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	log.Info("platform call", "kind", effect.Call, "number", effect.Number)
	result := operation.CallResult{Number: effect.Number}
	err := o.send(under, seen, op, effect, &result) //nolint:contextcheck // the call dies with the Lease; ctx ends it too
	result.Outcome = OutcomeOf(err)
	if err != nil {
		result.Message = err.Error()
	}
	o.cfg.Listing.Forget(op.Group)
	o.cfg.Metrics.Call(string(effect.Call), string(result.Outcome))
	log.Info("platform answered", "kind", effect.Call, "number", effect.Number, "outcome", result.Outcome, "error", err)
	o.cfg.Failpoint(FailAfterCall)
	o.mu.Lock()
	o.answers[op.ID] = result
	o.mu.Unlock()
}

// send makes the call of each Part.
func (o *Operator) send(ctx context.Context, seen observe.Seen, op operation.Operation, effect operation.Effect, result *operation.CallResult) error {
	switch effect.Call {
	case operation.PartCreate:
		return o.create(ctx, seen, op, effect, result)
	case operation.PartResources, operation.PartOSImage:
		return o.reshape(ctx, seen, effect, result)
	case operation.PartCompose:
		p, ok := o.preparedFor(op)
		if !ok {
			return fmt.Errorf("%w: the update is not prepared any more", platform.ErrBusy)
		}
		if err := o.notOwn(p.provisioned.AppID, appOfCVM(seen, effect.VMUUID)); err != nil {
			return fmt.Errorf("%w: %w", platform.ErrRefused, err)
		}
		accepted, err := o.cfg.Platform.Update(ctx, platform.UpdateRequest{
			VMUUID: effect.VMUUID, ComposeHash: p.provisioned.ComposeHash, EnvKey: p.provisioned.EnvKey, KMS: p.provisioned.KMS, Env: envOf(seen, op, p.content), Shape: shapeOf(effect),
		})
		result.Correlation = accepted.Correlation
		return err
	case operation.PartStop:
		stop := o.cfg.Platform.Stop
		if effect.Force {
			stop = o.cfg.Platform.ForceStop
		}
		accepted, err := stop(ctx, effect.VMUUID)
		result.Correlation = accepted.Correlation
		return err
	case operation.PartRestart:
		again := o.cfg.Platform.Restart
		switch {
		case o.cfg.Timing.StopFirst, stopped(seen, effect.VMUUID):
			again = o.cfg.Platform.Start // there is nothing to shut down
		case effect.Force:
			again = o.cfg.Platform.ForceRestart
		}
		accepted, err := again(ctx, effect.VMUUID)
		result.Correlation = accepted.Correlation
		return err
	case operation.PartDelete:
		return o.cfg.Platform.Delete(ctx, effect.VMUUID)
	}
	return fmt.Errorf("%w: no such change %q", platform.ErrRefused, effect.Call)
}

// reshape changes the CVM's OS image or its resources to the shape of the Operation's Revision.
func (o *Operator) reshape(ctx context.Context, seen observe.Seen, effect operation.Effect, result *operation.CallResult) error {
	if err := o.notOwn(appOfCVM(seen, effect.VMUUID)); err != nil {
		return fmt.Errorf("%w: %w", platform.ErrRefused, err)
	}
	var (
		accepted platform.Accepted
		err      error
	)
	switch effect.Call {
	case operation.PartOSImage:
		accepted, err = o.cfg.Platform.SetOSImage(ctx, effect.VMUUID, effect.Shape.OSImage)
	default:
		accepted, err = o.cfg.Platform.Resize(ctx, effect.VMUUID, shapeOf(effect))
	}
	result.Correlation, result.OSImage = accepted.Correlation, accepted.OSImage
	return err
}

// shapeOf is the shape that a call requests.
func shapeOf(effect operation.Effect) platform.Shape {
	s := effect.Shape
	return platform.Shape{InstanceType: s.InstanceType, DiskGB: s.DiskGB, OSImage: s.OSImage}
}

// create makes the Slot's CVM in the group's app. The first CVM goes into the app that was
// provisioned for it.
func (o *Operator) create(ctx context.Context, seen observe.Seen, op operation.Operation, effect operation.Effect, result *operation.CallResult) error {
	p, ok := o.preparedFor(op)
	if !ok {
		return fmt.Errorf("%w: the creation is not prepared any more", platform.ErrBusy)
	}
	req := platform.CreateRequest{Name: o.platformName(seen, op.Slot), Provisioned: p.provisioned, Template: p.template, Node: op.Call.Node, NotOn: effect.NotOn}
	req.Template.Env, req.Template.InstanceType = envOf(seen, op, p.content), p.content.InstanceType
	if op.Call.OwnInstanceType != "" && !o.sizesApp(p) {
		req.Template.InstanceType = op.Call.OwnInstanceType
	}
	if !p.newApp {
		req.AppID = p.provisioned.AppID
	}
	// A last check directly before the call: a CVM of that app holds the cluster's keys.
	if err := o.notOwn(req.AppID, req.Provisioned.AppID, req.Template.AppID); err != nil {
		return fmt.Errorf("%w: %w", platform.ErrRefused, err)
	}
	made, err := o.cfg.Platform.Create(ctx, req)
	result.VMUUID, result.InstanceID = cmp.Or(made.VMUUID, made.ID), made.InstanceID
	return err
}

// stopped: the platform lists the CVM as not running.
func stopped(seen observe.Seen, vmUUID string) bool {
	for _, s := range seen.Now.Slots {
		if i := s.Instance; i != nil && i.VMUUID == vmUUID {
			return !i.Running() && !i.InProgress
		}
	}
	return false
}

// platformName is the recorded name of the Slot's CVM.
func (o *Operator) platformName(seen observe.Seen, slot string) string {
	for _, s := range seen.Records.Slots {
		if s.Slot == slot && s.PlatformName != "" {
			return s.PlatformName
		}
	}
	return o.cfg.Cluster + "-" + slot
}

// awaitRemaining waits for the next regular renewal when the Lease is almost used up.
func awaitRemaining(ctx context.Context, lease store.Lease) time.Duration {
	ticker := time.NewTicker(remainingPoll)
	defer ticker.Stop()
	for {
		if left := lease.Remaining(); left >= minRemaining {
			return left
		}
		select {
		case <-ctx.Done():
			return 0
		case <-lease.Context().Done():
			return 0
		case <-ticker.C:
		}
	}
}

// givesEnv: the call sends the CVM its env.
func givesEnv(effect operation.Effect) bool {
	return effect.Call == operation.PartCompose || effect.Call == operation.PartCreate
}

// envOf is the env of the CVM of op's Slot, including the Slot's own values.
func envOf(seen observe.Seen, op operation.Operation, t group.Template) map[string]string {
	_, ordinal, err := group.ParseSlot(op.Slot)
	if err != nil {
		return t.Env
	}
	return seen.Spec.EnvOf(ordinal, t)
}

// judgeEnv decides whether the CVM of op's Slot may get the env that the spec gives the Slot now.
func judgeEnv(v *view.View, seen observe.Seen, op operation.Operation) policy.Decision {
	if op.Kind != operation.Update && op.Kind != operation.Create && op.Kind != operation.Replace {
		return policy.Decision{Allowed: true}
	}
	t, _ := templateOf(v, seen.Spec, op.To)
	record := v.Slots[op.Slot].Value
	record.Slot = op.Slot
	return rollout.JudgeEnv(seen.Spec, seen.Records.Policy, record, op.To, t)
}

// ownEnv names the Slot's own values of env for op's Slot.
func ownEnv(v *view.View, seen observe.Seen, op operation.Operation) string {
	t, _ := templateOf(v, seen.Spec, op.To)
	_, ordinal, err := group.ParseSlot(op.Slot)
	if err != nil {
		return ""
	}
	return seen.Spec.OwnEnv(ordinal, t)
}
