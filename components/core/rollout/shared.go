package rollout

import (
	"slices"
	"strings"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

// Boots of several Slots, of one group or of several, that fail in the same way, one soon after the
// other, have one cause, which no more boots mend: the key service, the registry, the collateral of
// attestation. A group of which one failed so is healed no more then, until somebody decides or one
// of them is back (R122). One boot at a time is tried meanwhile, seldom.

const (
	// sharedWithin is how long a failed boot may be one of several.
	sharedWithin = 15 * time.Minute
	// notedWithin is how long after its beginning an outage may be noted: an agent's last report
	// counts for so long, and its next Boot may be refused meanwhile.
	notedWithin = 15 * time.Second
	// sharedBy is how many Slots make a cause a shared one.
	sharedBy = 2
	// sharedFor is how long a cause stands after the last boot that failed: what nobody tries any
	// more is no evidence, and a cause that is still there is found anew.
	sharedFor = time.Hour
	// trialEvery is how long after the last boot that failed one is tried again.
	trialEvery = sharedWithin
	// noBoot is the way of a boot of which nothing was seen.
	noBoot = "the CVM was started and no boot of it came"
)

// keepShared takes the recorded cause over, ends it, or finds one.
func (w *world) keepShared() {
	was := w.rec.Status.SharedCause
	if was != nil {
		cause := *was
		w.shared = &cause
	}
	switch {
	case w.spec.AutoHealing == nil:
		w.shared = nil
	case w.shared == nil || !w.shared.Ended.IsZero():
		w.findShared()
	case w.sharedIsOver():
		w.shared.Ended = w.now
	}
}

// sharedHolds: healing waits for the end of a shared cause.
func (w *world) sharedHolds() bool { return w.shared != nil && w.shared.Ended.IsZero() }

// holdsOfShared holds every boot that healing would make but one: from time to time a single one is
// tried, so that a cause that went away by itself ends when nobody watches.
func (w *world) holdsOfShared(c candidate, l look) []Hold {
	if !w.sharedHolds() || c.service != "" {
		return nil
	}
	at := w.triedAt().Add(trialEvery)
	trial := c.kind == operation.Restart && w.onTrial(c.m) && w.tally.healing+l.taken.healing == 0
	switch {
	case l.op != nil && l.op.Times.Created.After(w.shared.Since):
		return nil // it is the trial
	case l.op != nil || !trial:
		return []Hold{hold(HoldSharedCause, "%s", w.sharedText())}
	case w.now.Before(at):
		return []Hold{holdUntil(at, HoldSharedCause, "%s; one boot is tried in %s", w.sharedText(), short(at.Sub(w.now)))}
	}
	return nil
}

// onTrial: of the Slots whose boots failed, which a restart may heal and whose attempts are not
// spent, m was tried longest ago: one that is broken in its own way tells nothing about the others.
func (w *world) onTrial(m *member) bool {
	return m == w.found.trial.of(func() (first *member) {
		for _, other := range w.members {
			r, _, ok := w.heals(other)
			if !ok || r.kind != operation.Restart || r.service != "" || w.spent(other, r) || !slices.Contains(w.shared.Slots, other.slot) {
				continue
			}
			if first == nil || other.healedAt().Before(first.healedAt()) {
				first = other
			}
		}
		return first
	})
}

// healedAt is when the last attempt to heal m began; zero: there was none.
func (m *member) healedAt() time.Time {
	if m.record.Heals == nil {
		return time.Time{}
	}
	return m.record.Heals.LastAt
}

// triedAt is when the last boot failed, or the cause was found.
func (w *world) triedAt() time.Time {
	return later(w.shared.Since, w.found.bootedAt.of(func() (at time.Time) {
		for _, m := range w.members {
			for _, op := range m.healed {
				if op.Way.Service == "" {
					at = later(at, op.Times.Ended)
				}
			}
		}
		return at
	}))
}

// sharedIsOver: an operator lets the group go on, the spec was edited, one of the Slots is back, none
// of them is there any more, or no boot failed for sharedFor.
func (w *world) sharedIsOver() bool {
	if w.retry != nil || w.shared.SpecIndex != w.rec.SpecIndex || w.now.Sub(w.triedAt()) > sharedFor {
		return true
	}
	there := 0
	for _, m := range w.members {
		if slices.Contains(w.shared.Slots, m.slot) {
			there++
			if m.ready || m.cameAfter(w.shared.Since) {
				return true // boots come in again, whatever becomes of them then
			}
		}
	}
	for _, b := range w.obs.Elsewhere {
		if slices.Contains(w.shared.Slots, b.Slot) && b.AdmittedAt.After(w.shared.Since) {
			return true
		}
	}
	return there == 0 && w.obs.Complete()
}

// findShared looks for the way in which most Slots failed lately, one of this group at least; an
// ended cause is forgotten with what it rested on.
func (w *world) findShared() {
	from := w.now.Add(-sharedWithin)
	if w.shared != nil {
		from = later(from, w.shared.Ended)
		if w.now.Sub(w.shared.Ended) > sharedWithin {
			w.shared = nil
		}
	}
	failed := map[string][]string{}
	for _, m := range w.members {
		if way, at := w.failedBoot(m); way != "" && at.After(from) && !at.After(w.now) {
			failed[way] = append(failed[way], m.slot)
		}
	}
	var elsewhere []Boot
	for _, b := range w.obs.Elsewhere {
		// That no boot came is what every dead host looks like: alike in two groups, it names no cause.
		if b.Way != noBoot && failed[b.Way] != nil && b.At.After(from) && !b.At.After(w.now) {
			elsewhere = append(elsewhere, b)
		}
	}
	slices.SortFunc(elsewhere, func(a, b Boot) int { return strings.Compare(a.Slot, b.Slot) })
	for _, b := range elsewhere {
		failed[b.Way] = append(failed[b.Way], b.Slot)
	}
	found := ""
	for way, slots := range failed {
		if n := len(slots); n >= sharedBy && (n > len(failed[found]) || n == len(failed[found]) && way < found) {
			found = way
		}
	}
	if found != "" {
		slots := failed[found] // its own first
		w.shared = &group.SharedCause{Way: found, Slots: slots[:min(len(slots), named)], Since: w.now, SpecIndex: w.rec.SpecIndex}
	}
}

// failedBoot is FailedBoot of m; "" while m is well.
func (w *world) failedBoot(m *member) (way string, at time.Time) {
	if m.ready || m.condemned {
		return "", at
	}
	return FailedBoot(m.seen.Admission, m.seen.Refusal, m.record.UnavailableSince, m.healed)
}

// FailedBoot is how the newest boot of a Slot failed, in words that are the same for the same
// cause, and when; "": it came, or there was none. a is the Slot's last admission and r its last
// refusal, nil where there is none; away is since when it is unavailable; healed are ended
// Operations that healed it.
func FailedBoot(a *policy.Admission, r *policy.Refusal, away time.Time, healed []*operation.Operation) (way string, at time.Time) {
	came := func(after time.Time) bool { return a != nil && a.AdmittedAt.After(after) }
	// By when it was refused first: a Boot that asks again for ever is the one failure that it was. What
	// proved nothing is no Boot of this CVM, and one of before is none of this outage, which is noted
	// once reports are old.
	if r != nil && r.Proven && !policy.Passing(r.Code) && !came(r.Began()) && !r.Began().Before(away.Add(-notedWithin)) {
		way, at = operation.RefusedWay(string(r.Code)), r.Began()
	}
	for _, op := range healed {
		if text := failedWay(op); text != "" && op.Times.Ended.After(at) && !came(op.Times.Ended) {
			way, at = text, op.Times.Ended
		}
	}
	return way, at
}

// Boot is what is known of the newest boot of another group's Slot.
type Boot struct {
	Slot string
	// Way is how it failed, by FailedBoot, and At when; "": it did not.
	Way string
	At  time.Time
	// AdmittedAt is when the Slot's last Boot was admitted; zero: none was.
	AdmittedAt time.Time
}

// MayShare reports whether a boot that failed at a time may be one of several that share a cause:
// whoever has one is to be told of those of other groups.
func MayShare(at, now time.Time) bool { return now.Sub(at) < sharedWithin && !at.After(now) }

// failedWay is how the boot that op waited for failed; "": it came, or there was none.
func failedWay(op *operation.Operation) string {
	if op.Phase != operation.Failed || op.Way.Service != "" || !op.Entered[operation.Joining].IsZero() {
		return ""
	}
	refused := op.Failure.Refused
	switch {
	case refused != "" && !op.Failure.Own:
		return "" // a boot may have come, or a stranger asked: nobody can tell
	case op.Failure.Cause == operation.CauseBootError:
		return op.Failure.Signature
	case op.Failure.Cause != operation.CauseDeadline, policy.Passing(policy.Code(refused)):
		return ""
	case refused != "":
		return operation.RefusedWay(refused)
	}
	return noBoot
}

// sharedText tells of the cause, for people.
func (w *world) sharedText() string {
	return "boots of " + strings.Join(w.shared.Slots, ", ") + " failed in the same way (" + w.shared.Way +
		"), and more boots do not mend what they share; once that is mended: cadre rollout retry " + w.spec.Name +
		", or cadre instance restart " + w.shared.Slots[0]
}
