package admission

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"cadre.dev/core/policy"
	admissionv1 "cadre.dev/proto/cadre/admission/v1"
	"cadre.dev/store"
)

const (
	// askers is how many questions of Boots that the View does not name are answered at
	// once, by three reads each. Each keeps its place for askPause at least, so that all
	// strangers together cause at most 80 reads a second here.
	askers   = 4
	askPause = 150 * time.Millisecond
)

// Standing implements AdmissionService. A Boot that was replaced while it was
// paused or cut off finds no coordinator that lets it in; here it learns why. The
// caller learns about its own key and nothing else. Anybody may ask, so only the
// answer yes is free; for a no, which must be right, the records are read, and who
// asks waits in the line of its Slot.
func (c *contact) Standing(ctx context.Context, req *admissionv1.StandingRequest) (*admissionv1.StandingResponse, error) {
	if c.challenges.Add(1) > maxExchanges {
		return nil, refuse(codeRate, "this connection asked often enough; make another one").later().public()
	}
	sum := sha256.Sum256(c.bootKey)
	group, slot, bootID := req.GetGroup(), req.GetSlot(), hex.EncodeToString(sum[:])
	holds, lane := c.seenStanding(group, slot, bootID)
	if holds {
		return &admissionv1.StandingResponse{Holds: true}, nil
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
		return nil, refuse(codeGate, "records are not readable now").later().public()
	}
	return &admissionv1.StandingResponse{Holds: ended.Code == "", Code: string(ended.Code), Message: ended.Message}, nil
}

// seenStanding is what the View says: that the Boot holds the Slot, and the line in
// which it waits otherwise. All who name a Slot that is none share one line.
func (s *Service) seenStanding(group, slot, bootID string) (holds bool, lane string) {
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

// Ended says, by consistent reads, why the Boot no longer is the Slot; its Code is
// empty while it is. A Boot that never was gets the same answer as one that was
// replaced.
func Ended(ctx context.Context, s store.Store, group, slot, bootID string) (policy.Decision, error) {
	d, _, err := ended(ctx, s, group, slot, bootID)
	return d, err
}

// ended is Ended; back reports that the Boot is a former holder which another one
// replaced, and that this was not noted before.
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

// errForgotten: nothing is recorded of the Slot, and nothing says that the Boot lost it.
var errForgotten = errors.New(string(codeUnknown) + ": " + forgottenText)

const forgottenText = "the records of the slot are lost, so nobody knows whether this boot is it: an operator adopts what it attests"

// forgotten reports that a Slot without an admission has no policy either, and that nobody
// was decided to have lost it: its records are lost. A Boot that was told that it is not
// the Slot would stop its workload for that.
func forgotten(ctx context.Context, s store.Store, slot, bootID string, d policy.Decisions) (bool, error) {
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
