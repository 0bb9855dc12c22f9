package admission

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"cadre.dev/core/policy"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

const (
	// askers bounds the concurrent answers that cost four reads each: those about Boots without
	// the Slot in the View. Each answer holds its place for askPause at least, so all
	// unauthenticated callers together cause at most 107 reads a second on this coordinator.
	askers   = 4
	askPause = 150 * time.Millisecond
)

// AdmissionStatus implements AdmissionService. A Boot that was replaced during a pause or a partition is
// refused by every coordinator; AdmissionStatus returns the reason. The caller learns about its own key
// only. Any caller may ask, so only the answer yes costs no reads. The answer no must be right: it
// reads the records, and the caller waits in the queue of its Slot.
func (c *contact) AdmissionStatus(ctx context.Context, req *admissionv1.AdmissionStatusRequest) (*admissionv1.AdmissionStatusResponse, error) {
	if c.challenges.Add(1) > maxExchanges {
		return nil, refuse(codeRate, "this connection reached its limit of requests; open a new one").later().public()
	}
	sum := sha256.Sum256(c.bootKey)
	group, slot, bootID := req.GetGroup(), req.GetSlot(), hex.EncodeToString(sum[:])
	holds, lane := c.seenStatus(group, slot, bootID)
	if holds {
		return &admissionv1.AdmissionStatusResponse{Holds: true}, nil
	}
	done, refused := c.asking.enter(ctx, lane, bootID)
	if refused != nil {
		return nil, refused.public()
	}
	began := time.Now()
	defer func() { time.AfterFunc(askPause-time.Since(began), done) }()
	ended, err := c.Ended(ctx, group, slot, bootID)
	if errors.Is(err, errForgotten) {
		return nil, refuse(codeUnknown, "%s", forgottenText).later().public()
	}
	if err != nil {
		return nil, refuse(codeUnreadable, "records are not readable now").later().public()
	}
	return &admissionv1.AdmissionStatusResponse{Holds: ended.Code == "", Code: string(ended.Code), Message: ended.Message}, nil
}

// seenStatus returns whether the Boot holds the Slot in the View, and the queue for the answer
// otherwise. Requests about unknown Slots share one queue.
func (s *Service) seenStatus(group, slot, bootID string) (holds bool, lane string) {
	v, _ := s.cfg.Views.Latest()
	if v == nil {
		return false, ""
	}
	if _, is := v.Slots[slot]; is {
		lane = slot
	}
	a := v.Admissions[slot].Value
	return a.BootID == bootID && a.Group == group && s.cfg.Views.Readable(), lane
}

// Ended returns, by consistent reads, why the Boot has lost the Slot; its Code is empty while the
// Boot holds it. A Boot that never held the Slot gets the same answer as a replaced one.
func Ended(ctx context.Context, s store.Store, group, slot, bootID string) (policy.Decision, error) {
	d, _, err := ended(ctx, s, group, slot, bootID)
	return d, err
}

// ended is Ended; back reports that the Boot is a former holder which another Boot replaced, and
// that its return is not recorded yet.
func ended(ctx context.Context, s store.Store, group, slot, bootID string) (_ policy.Decision, back bool, _ error) {
	a, _, err := store.Read[policy.Admission](ctx, s, store.AdmissionKey(slot))
	absent := errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrBadKey)
	switch {
	case err != nil && !absent:
		return policy.Decision{}, false, err
	case err == nil && a.BootID == bootID && a.Group == group:
		return policy.Decision{Allowed: true}, false, nil
	}
	decisions, _, err := store.Read[policy.Decisions](ctx, s, store.DecisionsKey(slot))
	if e, evicted := decisions.Evicted(bootID); err == nil && evicted {
		return policy.Decision{Code: e.Code, Message: e.Message}, false, nil
	}
	if absent {
		lost, err := forgotten(ctx, s, slot, bootID, decisions)
		if err == nil && lost {
			err = errForgotten
		}
		if err != nil {
			return policy.Decision{}, false, err
		}
	}
	back = err == nil && a.Contest.Rival == "" && policy.CameBack(decisions, a, bootID)
	return policy.Decision{Code: policy.CodeIncarnationStale, Message: "this boot does not hold the slot any more"}, back, nil
}

func decidedSince(d policy.Decisions, at time.Time) bool {
	return slices.ContainsFunc(d.Entries, func(e policy.DecisionEntry) bool {
		return (e.What == policy.DecidedAdmit || e.What == policy.DecidedEvict) && e.At.After(at)
	})
}

// errForgotten: the Slot has no records, and no decision shows that the Boot has lost the Slot.
var errForgotten = errors.New(string(codeUnknown) + ": " + forgottenText)

const forgottenText = "the records of the slot are lost, so it is unknown whether this boot holds the slot: an operator can adopt the instance"

// forgotten reports that the records of a Slot are lost: it has neither admission nor policy, and
// the Boot still holds it by the decisions. A Boot that learns that it has lost the Slot stops its
// workload, which must not follow from lost records.
//
// After a restore from a backup every admission is missing. Then the Boot may hold the Slot, unless
// a Boot was admitted or evicted since the restore.
func forgotten(ctx context.Context, s store.Store, slot, bootID string, d policy.Decisions) (bool, error) {
	from, _, err := store.Read[store.Restored](ctx, s, store.RestoredKey)
	switch {
	case err == nil && !decidedSince(d, from.At):
		return true, nil
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return false, err
	}
	if holder := d.Holder(); len(d.Entries) > 0 && holder != bootID {
		return false, nil
	}
	sp, _, err := store.Read[policy.SlotPolicy](ctx, s, store.SlotPolicyKey(slot))
	switch {
	case errors.Is(err, store.ErrBadKey):
		return false, nil
	case errors.Is(err, store.ErrNotFound):
		return true, nil
	}
	return err == nil && sp.InstanceID == "", err
}
