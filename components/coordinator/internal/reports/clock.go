package reports

import "time"

// clockSet is by how much the wall clock goes another way than time does before it counts as set: between the
// readings of the two is a moment.
const clockSet = 2 * time.Second

// lastLocked is the Slot's last report, with its times by the wall clock as it is now. Where that was set since, how
// old the report is can still be told: of what came in the minute before a clock was set back by a minute nothing
// else shows that it is not of now.
func (r *Reports) lastLocked(slot string) (Received, bool) {
	got, ok := r.last[slot]
	return r.settledLocked(got), ok
}

// FollowClock has the times of reports follow a wall clock that is set, for one whose readings do not carry time's own
// course as those of time.Now do, by which ages are told right. Call it before the first report.
func (r *Reports) FollowClock() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.follows = true
}

// settledLocked is the report with its times by the wall clock as it is now.
func (r *Reports) settledLocked(got Received) Received {
	if !r.follows || got.heard.IsZero() {
		return got
	}
	now := r.now()
	off := now.Round(0).Sub(got.At.Round(0)) - time.Since(got.heard)
	if off.Abs() <= clockSet {
		return got
	}
	off = off.Round(time.Second) // so that each look gives the same
	got.At = got.At.Round(0).Add(off)
	if !got.CutAt.IsZero() {
		got.CutAt = got.CutAt.Round(0).Add(off)
	}
	return got
}
