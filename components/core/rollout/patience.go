package rollout

import (
	"slices"
	"time"

	"cadre.dev/core/group"
)

// A database that replays its log for eight minutes after each boot is not helped by another
// restart after five. How long the boots of a Slot took lately is measured, and prolongs how
// long healing waits for the next one (R38, R87).

const (
	// keptRecoveries bounds what is kept of a Slot.
	keptRecoveries = 5
	// longestRecovery bounds one: longer ones waited for something else.
	longestRecovery = 24 * time.Hour
	// patienceOf is how much of the longest recovery is waited for: the next one may be longer.
	patienceOf = 2
	// mostPatience bounds what is waited for, in times of what the spec says.
	mostPatience = 4
	// recoversFor is how long a recovery is left alone whose lag does not fall, noteRecovery how often a fall is
	// noted at most.
	recoversFor  = 10 * time.Minute
	noteRecovery = time.Minute
)

// noteRecovery measures a boot that was admitted in this outage and is ready now, the first
// time. A leader that was away takes its own absence for part of it, within the bounds.
func (m *member) noteRecovery(now time.Time) {
	rec, admitted := &m.record, m.seen.Admission.AdmittedAt
	if rec.UnavailableSince.IsZero() || admitted.Before(rec.UnavailableSince) || now.Before(admitted) {
		return // it was ready before, or clocks differ
	}
	took := min(now.Sub(admitted), longestRecovery)
	list := append(slices.Clone(rec.RecoveriesSec), int((took+time.Second-1)/time.Second))
	rec.RecoveriesSec = list[max(0, len(list)-keptRecoveries):]
}

// keepRecovery notes the least lag that a member which recovers has reported. Where the lag only falls, one note a
// minute is enough for recoversFor.
func (w *world) keepRecovery(m *member) {
	rec, r := &m.record, m.report
	if m.ready {
		rec.Recovery = nil
	}
	if m.ready || r == nil || r.LagBytes == nil || len(r.Busy) == 0 {
		return
	}
	was := rec.Recovery
	another := was == nil || was.BootID != r.BootID || was.At.After(w.now) // of a leader whose clock was ahead
	if another || *r.LagBytes < was.LagBytes && w.now.Sub(was.At) >= noteRecovery {
		rec.Recovery = &group.Recovery{BootID: r.BootID, LagBytes: *r.LagBytes, At: w.now}
	}
}

// recoversUntil is until when m's recovery is left alone; zero: it reported none.
func (m *member) recoversUntil() time.Time {
	if m.record.Recovery == nil {
		return time.Time{}
	}
	return m.record.Recovery.At.Add(recoversFor)
}

// patience is how long m is waited for that may take as long as the spec says: never shorter,
// longer by what was measured, and mostPatience times that at most.
func (m *member) patience(says time.Duration) time.Duration {
	if len(m.record.RecoveriesSec) == 0 {
		return says
	}
	longest := time.Duration(slices.Max(m.record.RecoveriesSec)) * time.Second
	return max(says, min(patienceOf*longest, mostPatience*says))
}
