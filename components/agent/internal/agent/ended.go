package agent

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"cadre.dev/agent/internal/admit"
	"cadre.dev/core/policy"
)

const (
	// statusAfter is how long the Boot goes without a control session before it asks whether it
	// still is its Slot. A Boot that was paused or cut off, and replaced meanwhile, gets no
	// session, so it would not learn about the replacement.
	statusAfter = 3 * time.Second
	// statusEvery, jittered upwards by half of it, paces further questions.
	statusEvery = 10 * time.Second
)

// Serve runs agents until ctx ends, one Boot after the other. A Boot that lost its Slot stops at
// once; the next Boot requests admission under a new key. Serve returns an error only when the
// agent cannot work at all.
func Serve(ctx context.Context, cfg Config) error {
	for {
		a, err := New(cfg)
		if err != nil {
			return err
		}
		err = a.Run(ctx)
		ended, is := errors.AsType[*admit.EndedError](err)
		if is || ctx.Err() != nil || errors.Is(err, errMoved) {
			if err := a.forget(is || err != nil); err != nil {
				cfg.Log.Error("the saved boot is not removed: the next process may resume it", "error", err)
			}
		}
		if !is || ctx.Err() != nil {
			return err
		}
		cfg.Log.Warn("this boot lost its slot, a new boot requests admission", "boot", a.boot.ID, "code", ended.Code, "error", ended.Message)
		// An attacker in between could send the same answer each time; pause between the rounds.
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(againPause):
		}
	}
}

// againPause is between two Boots of one process.
const againPause = time.Second

// endWhenSlotLost returns an *admit.EndedError, which ends all parts, once this Boot has lost its Slot.
// The Slot's visible state ends first: the agent cuts off the Peers and removes the workloads'
// ready file, so that no new work starts on them.
func (a *Agent) endWhenSlotLost(ctx context.Context) error {
	why, _, err := a.hub.Ended().Wait(ctx, 0)
	if err != nil || why == nil {
		return nil //nolint:nilerr // only ctx ends it
	}
	return a.withdraw(&admit.EndedError{Code: why.Code, Message: why.Message})
}

func (a *Agent) withdraw(why *admit.EndedError) error {
	a.ended.Store(why)
	if node := a.node.Load(); node != nil {
		node.SetPeers(nil)
	}
	a.service.shut()
	a.consulProxy.Shut("this boot lost its slot: " + why.Error())
	if err := a.mesh.Withdraw(); err != nil {
		a.cfg.Log.Error("mesh files not withdrawn", "error", err)
	}
	a.cfg.Log.Warn("the slot is given up", "slot", a.self().Slot, "boot", a.boot.ID, "code", why.Code, "error", why.Message)
	return why
}

// watchAdmissionStatus asks at first contact while no control session is up.
func (a *Agent) watchAdmissionStatus(ctx context.Context) error {
	for ctx.Err() == nil {
		if !a.alone(ctx, statusAfter) {
			continue
		}
		current, _ := a.admitted.Get()
		err := a.admit.AdmissionStatus(ctx, current)
		if ended, is := errors.AsType[*admit.EndedError](err); is {
			return a.withdraw(ended)
		}
		if err != nil && admit.Code(err) == string(policy.CodeSlotUnknown) {
			select {
			case a.forgotten <- struct{}{}:
			default:
			}
		}
		if err != nil && ctx.Err() == nil {
			a.cfg.Log.Info("no coordinator answers whether this boot still has its slot", "slot", current.ID.Slot, "error", err)
		}
		a.alone(ctx, statusEvery+rand.N(statusEvery/2)) //nolint:gosec // jitter is no secret
	}
	return nil
}

// alone waits for d without any control session; it returns false if a session came up.
func (a *Agent) alone(ctx context.Context, d time.Duration) bool {
	n, index := a.hub.Sessions().Get()
	var over <-chan time.Time
	if n == 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ctx.Done():
	case <-a.hub.Sessions().Changed(index):
	case <-over:
		return ctx.Err() == nil
	}
	return false
}
