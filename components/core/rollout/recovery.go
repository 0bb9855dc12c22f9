package rollout

import (
	"time"

	"cadre.dev/core/group"
)

// keepRecovery notes the least lag that a member which recovers has reported. Where the lag only falls, ten notes
// within the time that it is left alone are enough.
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
	if another || *r.LagBytes < was.LagBytes && w.now.Sub(was.At) >= maxHealWait/10 {
		rec.Recovery = &group.Recovery{BootID: r.BootID, LagBytes: *r.LagBytes, At: w.now}
	}
}

// recoversUntil is until when m's recovery, whose lag does not fall, is left alone: as long as an attempt to heal may wait. Zero: it reported none.
func (m *member) recoversUntil() time.Time {
	if m.record.Recovery == nil {
		return time.Time{}
	}
	return m.record.Recovery.At.Add(maxHealWait)
}
