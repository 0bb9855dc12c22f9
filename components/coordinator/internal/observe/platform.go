package observe

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"cadre.dev/platform"
)

// Lister is the platform's list.
type Lister interface {
	List(ctx context.Context, appID string) ([]platform.Instance, error)
}

// Listing is what the platform said, and when it was asked.
type Listing struct {
	Instances []platform.Instance
	// At is before the request was sent: nothing older than At is in it.
	At  time.Time
	Err error

	// by are the Instances by name and by VM UUID; nil: they are looked for one by one.
	by *byName
}

// byName finds Instances without a look at all of them: each group does.
type byName struct {
	name, uuid map[string][]int
	group      map[string][]int // by what a name has before its ordinal
}

// indexed is l with its Instances found fast.
func (l Listing) indexed() Listing {
	l.by = &byName{name: map[string][]int{}, uuid: map[string][]int{}, group: map[string][]int{}}
	for n, i := range l.Instances {
		l.by.name[i.Name] = append(l.by.name[i.Name], n)
		if i.VMUUID != "" {
			l.by.uuid[i.VMUUID] = append(l.by.uuid[i.VMUUID], n)
		}
		if cut := strings.LastIndexByte(i.Name, '-'); cut >= 0 {
			l.by.group[i.Name[:cut]] = append(l.by.group[i.Name[:cut]], n)
		}
	}
	return l
}

// named are the Instances with the name, or the VM UUID where that is not empty.
func (l Listing) named(name, uuid string) (out []platform.Instance) {
	if l.by == nil {
		l = l.indexed()
	}
	found := slices.Clone(l.by.name[name])
	if uuid != "" {
		found = append(found, l.by.uuid[uuid]...)
	}
	slices.Sort(found)
	for _, n := range slices.Compact(found) {
		out = append(out, l.Instances[n])
	}
	return out
}

// like are the Instances whose names are prefix-<something without a dash>.
func (l Listing) like(prefix string) (out []platform.Instance) {
	if l.by == nil {
		l = l.indexed()
	}
	for _, n := range l.by.group[prefix] {
		out = append(out, l.Instances[n])
	}
	return out
}

// Platform keeps the platform's last list for a moment, so that many groups and
// readers cost one call. Safe for concurrent use.
type Platform struct {
	lister  Lister
	now     func() time.Time
	timeout time.Duration

	turn chan struct{} // held by whoever asks the platform

	mu   sync.Mutex
	last Listing // guarded by mu
	// events counts, so that what came first is known whatever the clock does; guarded by mu.
	events uint64
	// asked is when last was asked for, forgotten when Forget was called last for a group, ""
	// for all; by events, guarded by mu.
	asked     uint64
	forgotten map[string]uint64
}

// NewPlatform wraps lister; timeout bounds one list.
func NewPlatform(lister Lister, now func() time.Time, timeout time.Duration) *Platform {
	return &Platform{lister: lister, now: now, timeout: timeout, turn: make(chan struct{}, 1), forgotten: map[string]uint64{}}
}

// List gives a list that was asked for at most maxAge before the call, and after the last
// Forget for the group, "": for any. Those who wait at the same time get one answer. A list that failed is
// an error in the Listing, never an empty list (R11).
func (p *Platform) List(ctx context.Context, group string, maxAge time.Duration) Listing {
	called := p.event()
	if fresh, ok := p.fresh(group, maxAge, called); ok {
		return fresh
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return Listing{Err: ctx.Err(), At: p.now()}
	}
	// Another caller may have asked while this one waited.
	if fresh, ok := p.fresh(group, maxAge, called); ok {
		return fresh
	}
	call, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	asked := p.event()
	next := Listing{At: p.now()}
	next.Instances, next.Err = p.lister.List(call, "")
	next = next.indexed()
	if ctx.Err() != nil {
		return next
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.asked = next, asked
	maps.DeleteFunc(p.forgotten, func(_ string, at uint64) bool { return at < asked }) // it is after them
	return next
}

// event is the number of a new one.
func (p *Platform) event() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events++
	return p.events
}

// Forget makes the next List for the group ask the platform: after a call with an effect,
// the own write must be seen (R69). group "": for all.
func (p *Platform) Forget(group string) {
	at := p.event()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgotten[group] = at
}

// fresh is the last list, if the group may go by it.
func (p *Platform) fresh(group string, maxAge time.Duration, called uint64) (Listing, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	age := p.now().Sub(p.last.At)
	// Of the future it is where the clock was set back since: how old it is nobody knows.
	old := (age > maxAge || age < 0) && p.asked < called
	newest := max(p.forgotten[group], p.forgotten[""])
	if group == "" {
		newest = slices.Max(append(slices.Collect(maps.Values(p.forgotten)), 0))
	}
	if p.last.At.IsZero() || old || p.asked < newest {
		return Listing{}, false
	}
	return p.last, true
}
