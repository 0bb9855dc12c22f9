package control

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// notifyLimit bounds the notification of a Boot that lost its Slot. A paused Boot asks for its status
// when it resumes, and its Peers do not wait for it.
const notifyLimit = 300 * time.Millisecond

// Ended returns, by the current records, why a Boot has lost its Slot; its Code is empty while the
// Boot holds the Slot. spoke: the Boot itself just called, so it is alive. An open session does not
// prove that: the session of a dead Boot stays open for seconds.
type Ended func(ctx context.Context, group, slot, bootID string, spoke bool) (policy.Decision, error)

// EndStale closes the control sessions of the Boots of the groups of scope that do not hold their
// Slots in v. EndStale first notifies each Boot, which then stops its work as the Slot. EndStale
// returns when all are closed, at the latest after notifyLimit. EndStale reports whether all are
// decided: the reason for some may be unknown.
func (s *Service) EndStale(ctx context.Context, v *view.View, scope Scope) (all bool) {
	var stale []*session
	s.mu.Lock()
	for one := range s.ofLocked(scope) {
		if v.Admissions[one.slot].Value.BootID != one.bootID {
			stale = append(stale, one)
		}
	}
	s.mu.Unlock()
	if len(stale) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, notifyLimit)
	defer cancel()
	var calls sync.WaitGroup
	var unknown atomic.Bool
	for _, one := range stale {
		calls.Go(func() {
			if !s.endOne(ctx, v, one) {
				unknown.Store(true)
			}
		})
	}
	calls.Wait()
	return !unknown.Load()
}

// endLate ends a session that was opened while its Boot lost the Slot. EndStale only sees the
// sessions that are open when the records change.
func (s *Service) endLate(ctx context.Context, one *session) {
	v, _ := s.views.Latest()
	if v == nil || v.Admissions[one.slot].Value.BootID == one.bootID {
		return // the session is open for every later change
	}
	ctx, cancel := context.WithTimeout(ctx, notifyLimit)
	defer cancel()
	s.endOne(ctx, v, one)
}

// endOne reports whether the session is decided.
func (s *Service) endOne(ctx context.Context, v *view.View, one *session) bool {
	why, err := s.ended(ctx, one.group, one.slot, one.bootID, false)
	switch {
	case err == nil && why.Code == "":
		return true // the View is outdated; the next one has the Boot
	case err != nil:
		// An unreadable record, or a Consul without a leader, ends no Boot: the Boot would stop its
		// workload for that. The overlay still cuts it off. If it has ended, it learns the reason
		// when it asks for its admission status.
		s.log.Warn("the reason why a boot lost its slot is unknown", "slot", one.slot, "boot", one.bootID, "error", err)
		return false
	}
	_, err = one.agent.Wake(ctx, &controlv1.WakeRequest{Term: v.Term, EndedCode: string(why.Code), EndedMessage: why.Message})
	s.log.Warn("control session of an ended boot closed", "slot", one.slot, "boot", one.bootID, "code", why.Code, "notified", err == nil)
	one.end()
	return true
}

// notHolder returns the error for a Boot that does not hold its Slot in the View. notHolder reads
// the records again, because a Boot with this answer stops its work as the Slot.
func (s *Service) notHolder(ctx context.Context, id overlay.ID, boot string) error {
	why, err := s.ended(ctx, id.Group, id.Slot, boot, true)
	switch {
	case err != nil:
		return status.Error(codes.Unavailable, fmt.Sprintf("%s: records are not readable now", policy.CodeGateUnreadable))
	case why.Code == "":
		return status.Error(codes.Unavailable, "the records of the slot are not known here yet")
	}
	return status.Error(codes.FailedPrecondition, fmt.Sprintf("%s: %s", why.Code, why.Message))
}
