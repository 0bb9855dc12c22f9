package underlay

import (
	"slices"

	"cadre.dev/overlay/internal/underlay/paths"
)

// EventKind tells what happened to a Link. The zero value is no Event's.
type EventKind string

const (
	// PathUp: the Link has a path that works, and had none before.
	PathUp EventKind = "path up"
	// PathChanged: another path is in use.
	PathChanged EventKind = "path changed"
	// PathQuiet: the path in use has gone quiet. Another one is in use from now
	// on, if one works.
	PathQuiet EventKind = "path quiet"
	// PathsGone: no path works any more. Those that went quiet are probed on and
	// the last one stays in use.
	PathsGone EventKind = "paths gone"
)

// Event tells a Link's owner of a change.
type Event struct {
	Kind EventKind
	// Path is the one concerned; zero in PathsGone when there is none left.
	Path   PathInfo
	Reason string
}

// eventsKept is how many Events wait for a slow owner; then the oldest is lost.
const eventsKept = 16

// Follow has tell called with each Event, in order and one at a time: first with
// those that wait already. An owner that is too slow loses the oldest. tell may
// call the Link, but not Close it, which waits for tell. Call Follow once.
func (l *Link) Follow(tell func(Event)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell = tell
	l.beginTellingLocked()
}

// beginTellingLocked has a goroutine for as long as there is something to tell: an
// idle Link holds none, nor room for Events.
func (l *Link) beginTellingLocked() {
	if l.tell == nil || l.telling || l.closed || len(l.events) == 0 {
		return
	}
	l.telling = true
	l.running.Go(l.tellAll)
}

func (l *Link) tellAll() {
	for {
		l.mu.Lock()
		if len(l.events) == 0 {
			l.telling, l.events = false, nil
			l.mu.Unlock()
			return
		}
		ev := l.events[0]
		l.events = slices.Delete(l.events, 0, 1)
		l.mu.Unlock()
		l.tell(ev)
	}
}

var eventKinds = map[paths.Do]EventKind{
	paths.TellUp: PathUp, paths.TellChanged: PathChanged,
	paths.TellQuiet: PathQuiet, paths.TellGone: PathsGone,
}

func (l *Link) tellLocked(e paths.Effect) {
	ev := Event{Kind: eventKinds[e.Do], Reason: string(e.Reason)}
	if p := l.findLocked(e.Path); p != nil {
		ev.Path = l.infoLocked(p)
	}
	l.log.Info("link path", "event", string(ev.Kind), "path", ev.Path.Remote,
		"kind", string(ev.Path.Kind), "search", ev.Path.Search, "reason", ev.Reason)
	if len(l.events) == eventsKept {
		l.events = slices.Delete(l.events, 0, 1)
	}
	l.events = append(l.events, ev)
	l.beginTellingLocked()
}
