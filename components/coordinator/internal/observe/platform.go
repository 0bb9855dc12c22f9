package observe

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"cadre.dev/core/placement"
	"cadre.dev/platform"
)

// Lister returns the platform's list.
type Lister interface {
	List(ctx context.Context, appID string) ([]platform.Instance, error)
}

// Listing is an answer of the platform, with the time of its request.
type Listing struct {
	Instances []platform.Instance
	// At is before the request was sent: nothing older than At is in it.
	At  time.Time
	Err error
	// Unanswered has the nodes that did not answer, while others did; nil: Instances are all.
	Unanswered *platform.Unanswered
	// Nodes of the platform, sorted by id, at most a minute older; empty: the platform names none.
	Nodes []placement.Node

	// by indexes the Instances; nil: it is built on use.
	by *byName
}

// byName indexes Instances, because each group looks some of them up.
type byName struct {
	name, uuid map[string][]int
	group      map[string][]int // by the part of a name before its ordinal
}

// Lacks is why the Listing may lack a CVM that exists; nil: it lacks none.
func (l Listing) Lacks() error {
	if l.Err == nil && l.Unanswered != nil {
		return l.Unanswered
	}
	return l.Err
}

// indexed returns l with an index of its Instances.
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

// named returns the Instances with the name, or with the VM UUID if that is not empty.
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

// like returns the Instances whose names are prefix-<something without a dash>.
func (l Listing) like(prefix string) (out []platform.Instance) {
	if l.by == nil {
		l = l.indexed()
	}
	for _, n := range l.by.group[prefix] {
		out = append(out, l.Instances[n])
	}
	return out
}

// Platform caches the platform's last list for a moment, so that many groups and readers cost one
// call. Safe for concurrent use.
type Platform struct {
	lister  Lister
	now     func() time.Time
	timeout time.Duration

	turn chan struct{} // held by the caller that calls the platform
	// known are the nodes as read at nodesAt; guarded by turn.
	known   []placement.Node
	nodesAt time.Time

	mu   sync.Mutex
	last Listing // guarded by mu
	// events numbers the calls, so that their order does not depend on the clock; guarded by mu.
	events uint64
	// asked is the event of the request for last. forgotten has the event of the last Forget for
	// each group, "" for all. Both are guarded by mu.
	asked     uint64
	forgotten map[string]uint64
}

// NewPlatform wraps lister; timeout bounds one list.
func NewPlatform(lister Lister, now func() time.Time, timeout time.Duration) *Platform {
	return &Platform{lister: lister, now: now, timeout: timeout, turn: make(chan struct{}, 1), forgotten: map[string]uint64{}}
}

// List returns a list that was requested at most maxAge before the call, and after the last Forget
// for the group, "" for any group. Concurrent callers share one answer. A failed request is an
// error in the Listing, never an empty list (R11).
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
	// Another caller may have got a list while this one waited.
	if fresh, ok := p.fresh(group, maxAge, called); ok {
		return fresh
	}
	call, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	asked := p.event()
	next := Listing{At: p.now()}
	next.Instances, next.Err = p.lister.List(call, "")
	if partial, is := errors.AsType[*platform.Unanswered](next.Err); is {
		next.Unanswered, next.Err = partial, nil
	}
	dropNodes(next.Instances)
	next.Nodes = p.nodes(ctx)
	next = next.indexed()
	if ctx.Err() != nil {
		return next
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.asked = next, asked
	maps.DeleteFunc(p.forgotten, func(_ string, at uint64) bool { return at < asked }) // the new list is after them
	return next
}

// event returns the number of a new event.
func (p *Platform) event() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events++
	return p.events
}

// Forget makes the next List for the group call the platform: after a call with an effect, the list
// must include that effect (R69). group "": for all.
func (p *Platform) Forget(group string) {
	at := p.event()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgotten[group] = at
}

// fresh returns the last list if the group may use it.
func (p *Platform) fresh(group string, maxAge time.Duration, called uint64) (Listing, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	age := p.now().Sub(p.last.At)
	// A list from the future means that the clock was set back since. Its age is unknown, so it is
	// not used.
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
