package rollout

import (
	"time"

	"cadre.dev/core/group"
)

const (
	// recoversFor is how long a recovery is left alone whose lag does not fall, noteRecovery how often a fall is
	// noted at most.
	recoversFor  = 10 * time.Minute
	noteRecovery = time.Minute
)

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
