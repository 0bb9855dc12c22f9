package lifecycle

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"time"

	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

// State is the stage of this Slot's life, for the workload.
type State string

const (
	// InService means that nothing is asked.
	InService State = "IN_SERVICE"
	// Launching means that POST_LAUNCH hooks run.
	Launching State = "LAUNCHING"
	// Draining means that the Slot gets ready to be stopped.
	Draining State = "DRAINING"
	// Drained means that it may be stopped at any moment.
	Drained State = "DRAINED"
)

// Status is the lifecycle as the API shows it.
type Status struct {
	State State `json:"state"`
	// Operation is the order at work or ended last; absent before the first.
	Operation *Key      `json:"operation,omitempty"`
	Deadline  time.Time `json:"deadline,omitzero"`
	// Hooks of the order, in the order in which they run.
	Hooks  []HookStatus `json:"hooks,omitempty"`
	Result *Result      `json:"result,omitempty"`
}

// ErrNoToken reports that a call on a hook carries no token. Names can be guessed: only a caller
// with the token of this run may end the hook.
var ErrNoToken = errors.New("the hook's token is missing")

// Status returns the newest status and its index.
func (e *Executor) Status() (Status, uint64) { return e.status.Get() }

// WaitStatus is Status once its index differs from index or ctx ends.
func (e *Executor) WaitStatus(ctx context.Context, index uint64) (Status, uint64) {
	s, now, _ := e.status.Wait(ctx, index)
	return s, now
}

// Changes wakes the reporter of results.
func (e *Executor) Changes() *latestvalue.Value[Status] { return &e.status }

// Complete ends the open hook with that token. A late, repeated or foreign token is accepted
// without effect (R81): applied is false. Without a token Complete returns ErrNoToken.
func (e *Executor) Complete(hook, token string, result group.HookResult) (applied bool, err error) {
	switch result {
	case group.HookContinue, group.HookAbandon, group.HookHold:
	default:
		return false, fmt.Errorf("result %q is not known; use CONTINUE, ABANDON or HOLD", result)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	h, err := e.findLocked(hook, token)
	if h == nil {
		return false, err
	}
	select {
	case h.complete <- result:
		return true, nil
	default: // completed already
		return false, nil
	}
}

// Heartbeat restarts the open hook's heartbeat timer, as Complete finds it.
func (e *Executor) Heartbeat(hook, token string) (applied bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	h, err := e.findLocked(hook, token)
	if h == nil {
		return false, err
	}
	select {
	case h.heartbeat <- struct{}{}:
	default: // one is pending
	}
	return true, nil
}

func (e *Executor) findLocked(hook, token string) (*openHook, error) {
	h := e.open
	switch {
	case token == "":
		return nil, ErrNoToken
	case h == nil || h.spec.Name != hook || subtle.ConstantTimeCompare([]byte(token), []byte(h.token)) != 1:
		e.cfg.Log.Info("completion of an old hook ignored", "hook", hook)
		return nil, nil
	}
	return h, nil
}

func (e *Executor) announceHooks(hooks []group.LifecycleHook) {
	list := make([]HookStatus, 0, len(hooks))
	for _, h := range hooks {
		list = append(list, HookStatus{Name: h.Name, Transition: h.Transition, State: HookPending})
	}
	e.status.Update(func(s Status) Status { s.Hooks = list; return s })
}

func (e *Executor) openHook(h *openHook, st HookStatus) {
	e.mu.Lock()
	e.open = h
	e.mu.Unlock()
	e.status.Update(func(s Status) Status {
		s.Hooks = slices.Clone(s.Hooks)
		for i := range s.Hooks {
			if s.Hooks[i].Name == st.Name {
				s.Hooks[i] = st
			}
		}
		return s
	})
}

func (e *Executor) closeHook(h *openHook) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open == h {
		e.open = nil
	}
}

// hold shows that h ended with HOLD and keeps it open for people.
func (e *Executor) hold(h *openHook, message string) {
	text := fmt.Sprintf("hook %s: HOLD: %s", h.spec.Name, message)
	e.mu.Lock()
	if e.current != nil {
		held := *e.current
		held.State, held.Message, held.At = rollout.StepHeld, text, time.Now().UTC()
		e.current = &held
	}
	e.mu.Unlock()
	e.updateHook(h.token, func(st *HookStatus) {
		st.State, st.Result, st.Message = HookHeld, group.HookHold, message
		st.HeartbeatDeadline, st.MaxDeadline = time.Time{}, time.Time{}
	})
}

func (e *Executor) endHook(h *openHook, got outcome) {
	e.mu.Lock()
	if e.current != nil && e.current.State == rollout.StepHeld {
		resumed := *e.current
		resumed.State, resumed.Message, resumed.At = rollout.StepRunning, "", time.Now().UTC()
		e.current = &resumed
	}
	e.mu.Unlock()
	e.updateHook(h.token, func(st *HookStatus) {
		st.State, st.Result, st.Message = HookDone, got.result, got.message
		st.HeartbeatDeadline, st.MaxDeadline = time.Time{}, time.Time{}
	})
}

func (e *Executor) updateHook(token string, f func(*HookStatus)) {
	e.status.Update(func(s Status) Status {
		s.Hooks = slices.Clone(s.Hooks)
		for i := range s.Hooks {
			if s.Hooks[i].Token == token {
				f(&s.Hooks[i])
			}
		}
		return s
	})
}

func stateDuring(v rollout.Verb) State {
	switch v {
	case rollout.VerbDrain:
		return Draining
	case rollout.VerbPostLaunch, rollout.VerbRestartService:
		return Launching
	case rollout.VerbCancelDrain:
		return InService
	}
	return InService
}

func stateAfter(r Result) State {
	if r.Verb == rollout.VerbDrain && r.State == rollout.StepDone {
		return Drained
	}
	return InService
}
