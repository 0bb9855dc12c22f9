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

// tellLimit is how long a Boot that lost its Slot has to take the news. One that is
// paused asks again when it wakes up; its Peers are not kept waiting for it.
const tellLimit = 300 * time.Millisecond

// Ended says, by what the records say now, why a Boot no longer is a Slot; its Code
// is empty while it is. spoke: the Boot itself asked just now, so it is alive. That a
// session of it is open still says nothing: a dead one's stays for seconds.
type Ended func(ctx context.Context, group, slot, bootID string, spoke bool) (policy.Decision, error)

// EndStale closes the control sessions of Boots of the groups of scope that v does not
// name as the holders of their Slots, and tells each why first: it stops being the Slot at
// once then. It returns when all are closed, at the latest after tellLimit, and says
// whether that is all: of some it may not be known why they are not named.
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
	ctx, cancel := context.WithTimeout(ctx, tellLimit)
	defer cancel()
	var telling sync.WaitGroup
	var unknown atomic.Bool
	for _, one := range stale {
		telling.Go(func() {
			if !s.endOne(ctx, v, one) {
				unknown.Store(true)
			}
		})
	}
	telling.Wait()
	return !unknown.Load()
}

// endLate ends a session that was opened while its Boot lost the Slot: EndStale looks at
// those that are open when the records change, and this one was not yet.
func (s *Service) endLate(ctx context.Context, one *session) {
	v, _ := s.views.Latest()
	if v == nil || v.Admissions[one.slot].Value.BootID == one.bootID {
		return // who loses it from here on is open
	}
	ctx, cancel := context.WithTimeout(ctx, tellLimit)
	defer cancel()
	s.endOne(ctx, v, one)
}

// endOne reports whether it is known what becomes of the session.
func (s *Service) endOne(ctx context.Context, v *view.View, one *session) bool {
	why, err := s.ended(ctx, one.group, one.slot, one.bootID, false)
	switch {
	case err == nil && why.Code == "":
		return true // the view is behind; the next one will name it
	case err != nil:
		// A record that cannot be read, or a Consul without a leader, ends nobody: a Boot
		// that believed it would stop its workload. The overlay cuts it off all the same,
		// and it learns why, if it has ended, when it asks where it stands.
		s.log.Warn("not known why the records do not name a boot", "slot", one.slot, "boot", one.bootID, "error", err)
		return false
	}
	_, err = one.agent.Wake(ctx, &controlv1.WakeRequest{Term: v.Term, EndedCode: string(why.Code), EndedMessage: why.Message})
	s.log.Warn("control session of an ended boot closed", "slot", one.slot, "boot", one.bootID, "code", why.Code, "told", err == nil)
	one.end()
	return true
}

// notHolder is the answer to a Boot that the view does not name. The records are
// asked once more: a Boot that believes it stops being its Slot.
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
