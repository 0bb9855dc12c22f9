package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

// transferAttempts bounds calls that change leadership for one order (R54).
const transferAttempts = 3

// step is one order being carried out, by one goroutine.
type step struct {
	exec  *Executor
	order Order
	// again: the member leads again after the step was done; hooks are not repeated (R86).
	again bool
	// transferred and newLeader are the outcome of handOver.
	transferred bool
	newLeader   string
	// note names the callers that did not wait for the hand-over.
	note string
}

// run returns the final result, or false when it was cut off and has none.
func (s *step) run(ctx context.Context) (Result, bool) {
	hold := ctx
	if !s.order.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, s.order.Deadline, errDeadline)
		defer cancel()
	}
	state, err := s.carryOut(ctx, hold)
	if hold.Err() != nil {
		return Result{}, false
	}
	r := Result{Key: s.order.Key, State: state, At: time.Now().UTC(), Transferred: s.transferred, NewLeader: s.newLeader}
	switch {
	case err != nil:
		r.Message = truncateText(err.Error())
	case s.note != "":
		r.Message = truncateText("callers that were not paused for the hand-over: " + s.note)
	}
	return r, true
}

func (s *step) carryOut(ctx, hold context.Context) (rollout.StepState, error) {
	switch s.order.Verb {
	case rollout.VerbDrain:
		return s.drain(ctx, hold)
	case rollout.VerbPostLaunch:
		return s.runHooks(ctx, hold, group.PostLaunch)
	case rollout.VerbRestartService:
		err := s.exec.cfg.Commands.Restart(ctx, s.order.Service)
		s.exec.cfg.Member.Kick()
		if err != nil {
			return rollout.StepFailed, err
		}
		return rollout.StepDone, nil
	case rollout.VerbCancelDrain:
		if err := s.exec.cfg.Member.Driver().CancelDrain(ctx); err != nil {
			return rollout.StepFailed, fmt.Errorf("return to service: %w", err)
		}
		return rollout.StepDone, nil
	default:
		return rollout.StepFailed, fmt.Errorf("verb %q is not known to this agent", s.order.Verb)
	}
}

func (s *step) drain(ctx, hold context.Context) (rollout.StepState, error) {
	if !s.again && !s.order.WithoutHooks {
		state, err := s.runHooks(ctx, hold, group.PreTerminate)
		if state == rollout.StepAborted {
			if undo := s.exec.cfg.Member.Driver().CancelDrain(hold); undo != nil {
				err = errors.Join(err, fmt.Errorf("return to service: %w", undo))
			}
		}
		if state != rollout.StepDone {
			return state, err
		}
	}
	if err := s.handOver(ctx); err != nil {
		return rollout.StepFailed, fmt.Errorf("hand leadership over: %w", err)
	}
	if err := s.exec.cfg.Member.Driver().Drain(ctx); err != nil {
		return rollout.StepFailed, fmt.Errorf("drain: %w", err)
	}
	return rollout.StepDone, nil
}

// runHooks runs the hooks of at, one after the other, in the spec's order.
func (s *step) runHooks(ctx, hold context.Context, at group.Transition) (rollout.StepState, error) {
	var hooks []group.LifecycleHook
	for _, h := range s.exec.cfg.Hooks() {
		if h.Transition == at {
			hooks = append(hooks, h)
		}
	}
	s.exec.announceHooks(hooks)
	for _, h := range hooks {
		got, err := s.runHook(ctx, hold, h)
		switch {
		case err != nil:
			return rollout.StepFailed, fmt.Errorf("hook %s: %w", h.Name, err)
		case got.result == group.HookAbandon:
			return rollout.StepAborted, fmt.Errorf("hook %s: ABANDON: %s", h.Name, got.message)
		}
	}
	return rollout.StepDone, nil
}

// handOver moves leadership off this member if the order asks for it and it
// leads. It observes before each call, so that a call with an unknown effect is
// never repeated blindly.
func (s *step) handOver(ctx context.Context) error {
	if s.order.ExpectedLeader == "" || s.transferred && !s.again {
		return nil
	}
	d, self := s.exec.cfg.Member.Driver(), s.exec.cfg.Slot
	var last error
	for calls, pause := 0, 50*time.Millisecond; ; pause = min(2*pause, time.Second) {
		view, err := d.Observe(ctx)
		switch {
		case err != nil:
			last = err
		case view.Role == driver.RoleNone:
			return nil
		case view.Leader != "" && view.Leader != self && view.Role != driver.RoleLeader:
			s.newLeader = view.Leader
			s.transferred = s.transferred || calls > 0
			return nil
		case view.Leader == self && calls >= transferAttempts:
			return fmt.Errorf("still leads after %d attempts: %w", calls, last)
		case view.Leader == self:
			calls++
			var done driver.Transferred
			done, last = s.transfer(ctx, d)
			s.exec.cfg.Member.Kick()
			if last == nil {
				s.transferred = s.transferred || done.Moved
				s.newLeader = done.Leader
				s.exec.cfg.Log.Info("leadership handed over", "operation", s.order.Operation,
					"moved", done.Moved, "leader", done.Leader, "epoch", done.Epoch)
				return nil
			}
			s.exec.cfg.Log.Warn("transfer did not succeed", "operation", s.order.Operation, "attempt", calls, "error", last)
			if errors.Is(last, driver.ErrUnsafe) {
				return last
			}
		default:
			last = errors.New("the leader is not known: " + view.Message)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(context.Cause(ctx), last)
		}
	}
}

// transfer makes one call that moves leadership, while callers wait. Prepare finds a refusal first,
// so that callers do not wait for a hand-over that does not happen.
func (s *step) transfer(ctx context.Context, d driver.Driver) (driver.Transferred, error) {
	request, err := driver.Prepare(ctx, d, driver.TransferRequest{ExpectedLeader: s.order.ExpectedLeader, Candidates: s.order.Candidates})
	switch {
	case errors.Is(err, driver.ErrUnsafe), errors.Is(err, driver.ErrBusy):
		return driver.Transferred{}, err
	case err != nil:
		s.exec.cfg.Log.Warn("the hand-over is not prepared and will take longer", "operation", s.order.Operation, "error", err)
	}
	callers := s.exec.cfg.Callers
	if callers == nil {
		return d.Transfer(ctx, request)
	}
	if s.note = callers.Pause(ctx, s.order.Key); s.note != "" {
		s.exec.cfg.Log.Warn("some callers are not paused for the hand-over", "operation", s.order.Operation, "callers", s.note)
	}
	done, err := d.Transfer(ctx, request)
	// Callers resume in either case, also when the order was cancelled.
	callers.Release(context.WithoutCancel(ctx), s.order.Key, done.Leader)
	return done, err
}
