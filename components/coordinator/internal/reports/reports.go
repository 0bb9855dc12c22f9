package reports

import (
	"slices"
	"sync"
	"time"

	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// LiveWithin is the maximum age of a report for its Boot to hold its Slot against another Boot.
// Agents report at least every 5 s; the end of a session is reported at once.
const LiveWithin = 12 * time.Second

// late is the age of a Slot's last report from which the next one always counts as a change: a
// reader may have considered the agent silent meanwhile.
const late = LiveWithin / 2

// Received is one report with the time of its arrival or of its last heartbeat.
type Received struct {
	BootID string
	At     time.Time
	// Do not change Report.
	Report *controlv1.Report
	// Sequence of the report, or of the last heartbeat that confirmed it.
	Sequence uint64
	// HealthyFor is how long everything had been healthy at At.
	HealthyFor time.Duration
	// CutAt is when the Boot's last session ended; zero while one is open.
	CutAt time.Time
	// heard is At by the monotonic clock.
	heard time.Time
}

// Reports is safe for concurrent use.
type Reports struct {
	now func() time.Time

	mu   sync.Mutex
	last map[string]Received        // guarded by mu; by Slot
	live map[string]map[*int]string // guarded by mu; Slot → open sessions → Boot
	// notedWatermarks has the watermarks of Boots that lost their Slots; guarded by mu, by Slot.
	notedWatermarks map[string]notedWatermark
	// left are the Boots that said farewell; guarded by mu, by Slot.
	left       map[string]string
	changed    chan struct{}              // guarded by mu; closed at the next relevant change
	subscribed map[*Subscription]struct{} // guarded by mu
	// highWater are the last computed watermarks, and moved counts the Slots that changed since;
	// guarded by mu.
	highWater   HighWater
	highWaterAt time.Time
	moved       int
	// follows: see FollowClock; guarded by mu.
	follows bool
}

// New returns empty Reports.
func New(now func() time.Time) *Reports {
	return &Reports{
		now: now, last: map[string]Received{}, notedWatermarks: map[string]notedWatermark{}, left: map[string]string{}, live: map[string]map[*int]string{},
		changed: make(chan struct{}), subscribed: map[*Subscription]struct{}{},
	}
}

// Put stores a Slot's report from the Boot that the session authenticated, and reports whether it
// did. It drops older sequence numbers of the same Boot, and reports after its farewell.
func (r *Reports) Put(slot, bootID string, report *controlv1.Report) (taken bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, had := r.lastLocked(slot)
	if r.left[slot] == bootID && bootID != "" {
		return false
	}
	delete(r.left, slot)
	if had && before.BootID == bootID && report.GetSequence() < before.Sequence {
		return false
	}
	if !had || before.Report.GetTerm() != report.GetTerm() || before.Report.GetState() != report.GetState() {
		r.moved++
	}
	r.last[slot] = Received{
		BootID: bootID, At: r.now(), heard: time.Now(), Report: report, Sequence: report.GetSequence(), HealthyFor: report.GetHealthyFor().AsDuration(),
	}
	delete(r.notedWatermarks, slot)
	// After a silence even an unchanged report is a change.
	if !had || before.BootID != bootID || relevant(before.Report, report) || r.now().Sub(before.At) > late {
		r.noteLocked(slot)
	}
	return true
}

// Beat confirms the Boot's last report, and returns it. nil: this is not the last report here, and
// the Boot has to send the whole one.
func (r *Reports) Beat(slot, bootID string, beat *controlv1.Heartbeat) *controlv1.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, had := r.lastLocked(slot)
	if !had || last.BootID != bootID || last.Report.GetSequence() != beat.GetReport() {
		return nil
	}
	if beat.GetSequence() < last.Sequence {
		return last.Report // a later heartbeat overtook this one
	}
	healthy := time.Duration(min(beat.GetHealthyMs(), maxHealthy)) * time.Millisecond
	// After a silence even an unchanged report is a change.
	news := (healthy == 0) != (last.HealthyFor == 0) || r.now().Sub(last.At) > late
	last.heard = time.Now()
	last.At, last.Sequence, last.HealthyFor, last.CutAt = r.now(), beat.GetSequence(), healthy, time.Time{}
	r.last[slot] = last
	if news {
		r.noteLocked(slot)
	}
	return last.Report
}

// maxHealthy is more milliseconds than any spec asks for, and cannot overflow.
const maxHealthy = uint64(10 * 365 * 24 * time.Hour / time.Millisecond)

// Farewell drops the Boot's report and ignores later ones.
func (r *Reports) Farewell(slot, bootID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left[slot] = bootID
	if r.last[slot].BootID == bootID {
		delete(r.last, slot)
		r.moved++
	}
	r.noteLocked(slot)
}

// Left reports whether the Boot said farewell here.
func (r *Reports) Left(slot, bootID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bootID != "" && r.left[slot] == bootID
}

// Of returns the Slot's last report; none after its Boot's farewell.
func (r *Reports) Of(slot string) (Received, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lastLocked(slot)
}

// notedFor is how long the watermark of a Boot without its Slot counts: the Boot reports it
// once.
const notedFor = time.Hour

type notedWatermark struct {
	mark Watermark
	at   time.Time
}

// NoteWatermark records the watermark of a Boot that has a certificate for the Slot and does not hold it
// according to the current records. If the records went back, this applies to every Boot.
func (r *Reports) NoteWatermark(slot string, report *controlv1.Report) {
	r.Saw(slot, report.GetTerm(), report.GetState())
}

// Saw is NoteWatermark for a Boot that requests admission. Its later reports replace the value.
func (r *Reports) Saw(slot string, term, state uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moved++
	r.notedWatermarks[slot] = notedWatermark{Watermark{term, state}, r.now()}
	r.noteLocked(slot)
}

// Watermark is the Term and state of the records at a moment.
type Watermark struct{ Term, State uint64 }

// HighWater are the watermarks of the Boots that reported recently or asked for admission, one per Slot.
// Term and State are evaluated separately.
type HighWater struct {
	Agents int
	// Most is the highest watermark that more than half of them have seen. A single lying Boot can
	// neither stop the leader nor hide the others' watermarks from it.
	Most Watermark
	// Any is the highest of all.
	Any Watermark
}

// highWaterFor is the maximum age of a cached HighWater while few of many Slots moved: each pass of each group
// reads them.
const highWaterFor = 100 * time.Millisecond

// HighWater returns the watermarks; zero without recent reports.
func (r *Reports) HighWater() HighWater {
	if known, fresh := r.cachedHighWater(); fresh {
		return known
	}
	terms, states, moved := r.seen()
	var out HighWater
	if n := len(terms); n > 0 {
		slices.Sort(terms)
		slices.Sort(states)
		// The entries from most on are more than half of all, and have this value or a higher one.
		most := n - (n/2 + 1)
		out = HighWater{Agents: n, Most: Watermark{terms[most], states[most]}, Any: Watermark{terms[n-1], states[n-1]}}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.highWater, r.highWaterAt, r.moved = out, r.now(), r.moved-moved
	return out
}

// cachedHighWater returns the cached HighWater, and whether they are still current.
func (r *Reports) cachedHighWater() (last HighWater, fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	age := r.now().Sub(r.highWaterAt)
	return r.highWater, age >= 0 && age < highWaterFor && 100*r.moved <= len(r.last)
}

// seen returns the Terms and states that count now. The caller sorts them, so that reports do not
// wait for that. moved is the number of Slots that moved before.
func (r *Reports) seen() (terms, states []uint64, moved int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	terms, states = make([]uint64, 0, len(r.last)), make([]uint64, 0, len(r.last))
	now := r.now()
	for _, got := range r.last {
		if now.Sub(r.settledLocked(got).At) <= LiveWithin {
			terms, states = append(terms, got.Report.GetTerm()), append(states, got.Report.GetState())
		}
	}
	for _, one := range r.notedWatermarks {
		if now.Sub(one.at) <= notedFor {
			terms, states = append(terms, one.mark.Term), append(states, one.mark.State)
		}
	}
	return terms, states, r.moved
}

// Term returns the highest Term that most have seen; 0 without recent reports.
func (r *Reports) Term() uint64 { return r.HighWater().Most.Term }

// Changed closes at the next change that may matter to a plan.
func (r *Reports) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// Connect records an open control session; the caller calls the result at its end. The end of the
// last session of the reporting Boot counts as a change: a live agent reconnects at once.
func (r *Reports) Connect(slot, bootID string) (disconnect func()) {
	handle := new(int)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live[slot] == nil {
		r.live[slot] = map[*int]string{}
	}
	r.live[slot][handle] = bootID
	r.cutLocked(slot, bootID, time.Time{})
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if delete(r.live[slot], handle); len(r.live[slot]) == 0 {
			delete(r.live, slot)
		}
		if !r.openLocked(slot, bootID) {
			r.cutLocked(slot, bootID, r.now())
		}
		r.noteLocked(slot)
	}
}

// cutLocked sets the end of the Boot's last session; zero: one is open.
func (r *Reports) cutLocked(slot, bootID string, at time.Time) {
	if last, had := r.last[slot]; had && last.BootID == bootID {
		last.CutAt = at
		r.last[slot] = last
	}
}

// openLocked reports whether the Boot has a session here.
func (r *Reports) openLocked(slot, bootID string) bool {
	for _, boot := range r.live[slot] {
		if boot == bootID {
			return true
		}
	}
	return false
}

// Live reports whether the Boot has an open session and reported recently.
func (r *Reports) Live(slot, bootID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	got, ok := r.lastLocked(slot)
	if !ok || got.BootID != bootID || r.now().Sub(got.At) > LiveWithin {
		return false
	}
	return r.openLocked(slot, bootID)
}

// Connected counts the Slots with an open session.
func (r *Reports) Connected() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.live)
}

func (r *Reports) wakeLocked() {
	close(r.changed)
	r.changed = make(chan struct{})
}
