package lifecycle

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"cadre.dev/core/group"
)

const (
	defaultHeartbeat   = 5 * time.Minute
	defaultMaxDuration = time.Hour
)

// HookState is the state of a hook.
type HookState string

const (
	// HookPending means that its turn has not come.
	HookPending HookState = "PENDING"
	// HookOpen is at work; it may be completed or heartbeated.
	HookOpen HookState = "OPEN"
	// HookHeld ended with HOLD and waits for CONTINUE or ABANDON.
	HookHeld HookState = "HELD"
	// HookDone ended with CONTINUE or ABANDON.
	HookDone HookState = "DONE"
)

// HookStatus is one hook of the present order, as the API shows it.
type HookStatus struct {
	Name       string           `json:"name"`
	Transition group.Transition `json:"transition"`
	State      HookState        `json:"state"`
	// Token is unguessable and names this run of the hook (R81).
	Token             string           `json:"token,omitempty"`
	StartedAt         time.Time        `json:"started_at,omitzero"`
	HeartbeatDeadline time.Time        `json:"heartbeat_deadline,omitzero"`
	MaxDeadline       time.Time        `json:"max_deadline,omitzero"`
	Result            group.HookResult `json:"result,omitempty"`
	Message           string           `json:"message,omitempty"`
}

// openHook is a running hook. The channels hold one value: a second completion or heartbeat that
// finds them full changes nothing.
type openHook struct {
	spec      group.LifecycleHook
	token     string
	complete  chan group.HookResult
	heartbeat chan struct{}
}

// outcome is how a hook's own action ended.
type outcome struct {
	result  group.HookResult
	message string
}

// errDeadline is the cause of an order's end by its own deadline.
var errDeadline = errors.New("the order's deadline passed")

// runHook opens hook and returns CONTINUE or ABANDON. The error is ctx's cause: superseded, shut
// down, or errDeadline. hold is ctx without the order's deadline: a held hook waits for people, who
// have no deadline.
func (s *step) runHook(ctx, hold context.Context, spec group.LifecycleHook) (outcome, error) {
	token, err := newToken()
	if err != nil {
		return outcome{}, err
	}
	h := &openHook{spec: spec, token: token, complete: make(chan group.HookResult, 1), heartbeat: make(chan struct{}, 1)}
	beat, limit := hookTimes(spec)
	now := time.Now()
	s.exec.openHook(h, HookStatus{
		Name: spec.Name, Transition: spec.Transition, State: HookOpen, Token: token,
		StartedAt: now, HeartbeatDeadline: now.Add(beat), MaxDeadline: now.Add(limit),
	})
	s.exec.cfg.Log.Info("hook opened", "operation", s.order.Operation, "hook", spec.Name)
	defer s.exec.closeHook(h)

	got, err := s.awaitHook(ctx, h, beat, limit)
	for err == nil && got.result == group.HookHold {
		s.exec.hold(h, got.message)
		s.exec.cfg.Log.Warn("hook holds the step", "operation", s.order.Operation, "hook", spec.Name, "reason", got.message)
		select {
		case got.result = <-h.complete:
		case <-hold.Done():
			return got, context.Cause(hold)
		}
	}
	if err != nil {
		return got, err
	}
	s.exec.endHook(h, got)
	s.exec.cfg.Log.Info("hook ended", "operation", s.order.Operation, "hook", spec.Name,
		"result", got.result, "reason", got.message)
	return got, nil
}

// awaitHook runs the hook's action until the action ends, a caller completes the hook, or a timer
// gives the default result (R79, R80).
func (s *step) awaitHook(ctx context.Context, h *openHook, beat, limit time.Duration) (outcome, error) {
	acting, stop := context.WithCancel(ctx)
	acted := s.act(acting, h)
	defer func() {
		stop()
		if acted != nil {
			<-acted // closed when the action is gone
		}
	}()
	heartbeat, absolute := time.NewTimer(beat), time.NewTimer(limit)
	defer heartbeat.Stop()
	defer absolute.Stop()
	ended := acted
	for {
		select {
		case got, ok := <-ended:
			if ok {
				return got, nil
			}
			ended = nil // cut off with ctx, which has the cause
		case result := <-h.complete:
			return outcome{result: result, message: completed}, nil
		case <-h.heartbeat:
			s.beat(h, heartbeat, beat)
		case <-heartbeat.C:
			if beat >= limit {
				continue // the cap is due at the same moment and has the better text
			}
			select {
			case <-h.heartbeat: // came in time: it is this process that is late
				s.beat(h, heartbeat, beat)
				continue
			default:
			}
			return s.exec.timedOut(h, fmt.Sprintf("no heartbeat for %s", beat)), nil
		case <-absolute.C:
			return s.exec.timedOut(h, fmt.Sprintf("not done after %s", limit)), nil
		case <-ctx.Done():
			return outcome{}, context.Cause(ctx)
		}
	}
}

func (s *step) beat(h *openHook, timer *time.Timer, beat time.Duration) {
	timer.Reset(beat)
	s.exec.updateHook(h.token, func(st *HookStatus) { st.HeartbeatDeadline = time.Now().Add(beat) })
}

// timedOut is the outcome of a hook whose timer fired. A completion that was reported to its caller
// as applied counts, however late the timer is handled.
func (e *Executor) timedOut(h *openHook, message string) outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case result := <-h.complete:
		return outcome{result: result, message: completed}
	default:
	}
	result := defaultResult(h.spec)
	if result != group.HookHold && e.open == h {
		e.open = nil // from here on it cannot be completed
	}
	return outcome{result, message}
}

// completed is the message of a hook that a caller ended.
const completed = "completed at the API"

func hookTimes(spec group.LifecycleHook) (beat, limit time.Duration) {
	beat, limit = spec.HeartbeatTimeout.D(), spec.MaxDuration.D()
	if beat <= 0 {
		beat = defaultHeartbeat
	}
	if limit <= 0 {
		limit = defaultMaxDuration
	}
	return min(beat, limit), limit
}

// defaultResult is the spec's, or else ABANDON before disruption. After a launch ABANDON has no
// earlier state to return to, so the Slot is held.
func defaultResult(spec group.LifecycleHook) group.HookResult {
	switch {
	case spec.DefaultResult != "":
		return spec.DefaultResult
	case spec.Transition == group.PostLaunch:
		return group.HookHold
	default:
		return group.HookAbandon
	}
}

func newToken() (string, error) {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		return "", fmt.Errorf("make hook token: %w", err)
	}
	return hex.EncodeToString(b), nil
}
