package reports

import "time"

// clockSet is the difference between wall clock and monotonic clock from which the wall clock
// counts as set: the two readings are a moment apart.
const clockSet = 2 * time.Second

// lastLocked returns the Slot's last report, with its times by the current wall clock. After the
// clock was set, only the monotonic clock has the right age of a report. For example, after a step
// back of a minute the last minute's reports would look current.
func (r *Reports) lastLocked(slot string) (Received, bool) {
	got, ok := r.last[slot]
	return r.settledLocked(got), ok
}

// FollowClock makes the times of reports follow a wall clock that is set. It is for a clock without
// monotonic readings: those of time.Now give right ages. Call it before the first report.
func (r *Reports) FollowClock() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.follows = true
}

// settledLocked returns the report with its times by the current wall clock.
func (r *Reports) settledLocked(got Received) Received {
	if !r.follows || got.heard.IsZero() {
		return got
	}
	now := r.now()
	off := now.Round(0).Sub(got.At.Round(0)) - time.Since(got.heard)
	if off.Abs() <= clockSet {
		return got
	}
	off = off.Round(time.Second) // rounded, so that repeated reads give the same time
	got.At = got.At.Round(0).Add(off)
	if !got.CutAt.IsZero() {
		got.CutAt = got.CutAt.Round(0).Add(off)
	}
	return got
}
