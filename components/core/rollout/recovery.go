package rollout

import (
	"time"

	"cadre.dev/core/group"
)

// keepRecovery records the least lag that a recovering member has reported. If the lag only falls, ten records within
// the time without repairs are enough.
func (w *world) keepRecovery(m *member) {
	rec, r := &m.record, m.report
	if m.ready {
		rec.Recovery = nil
	}
	if m.ready || r == nil || r.LagBytes == nil || len(r.Busy) == 0 {
		return
	}
	was := rec.Recovery
	another := was == nil || was.BootID != r.BootID || was.At.After(w.now) // written by a leader whose clock was ahead
	if another || *r.LagBytes < was.LagBytes && w.now.Sub(was.At) >= maxHealWait/10 {
		rec.Recovery = &group.Recovery{BootID: r.BootID, LagBytes: *r.LagBytes, At: w.now}
	}
}

// recoversUntil returns until when healing leaves m's recovery alone if its lag does not fall: as long as an attempt
// to heal may wait. Zero: m reported no recovery.
func (m *member) recoversUntil() time.Time {
	if m.record.Recovery == nil {
		return time.Time{}
	}
	return m.record.Recovery.At.Add(maxHealWait)
}
