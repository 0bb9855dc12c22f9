package underlay

import (
	"slices"

	"cadre.dev/overlay/internal/underlay/paths"
)

// EventKind names a change of a Link. The zero value is no Event's.
type EventKind string

const (
	// PathUp: the Link has a path that works, and had none before.
	PathUp EventKind = "path up"
	// PathChanged: another path is in use.
	PathChanged EventKind = "path changed"
	// PathQuiet: the path in use has gone quiet. Another one is in use from now
	// on, if one works.
	PathQuiet EventKind = "path quiet"
	// PathsGone: no path works any more. The Link goes on probing its quiet paths, and
	// the last path in use stays in use.
	PathsGone EventKind = "paths gone"
)

// Event reports a change to a Link's owner.
type Event struct {
	Kind EventKind
	// Path is the path concerned; zero in PathsGone when no path is left.
	Path   PathInfo
	Reason string
}

// eventsKept is how many Events wait for a slow owner; then the oldest is lost.
const eventsKept = 16

// Follow calls notify with each Event, in order and one at a time, beginning with the
// waiting Events. A slow owner loses the oldest Events. notify may call the Link, except
// Close, which waits for notify. Call Follow once.
func (l *Link) Follow(notify func(Event)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notify = notify
	l.startNotifyingLocked()
}

// startNotifyingLocked starts a goroutine that ends when no Event is left: an idle Link
// holds no goroutine, and no room for Events.
func (l *Link) startNotifyingLocked() {
	if l.notify == nil || l.notifying || l.closed || len(l.events) == 0 {
		return
	}
	l.notifying = true
	l.running.Go(l.notifyAll)
}

func (l *Link) notifyAll() {
	for {
		l.mu.Lock()
		if len(l.events) == 0 {
			l.notifying, l.events = false, nil
			l.mu.Unlock()
			return
		}
		ev := l.events[0]
		l.events = slices.Delete(l.events, 0, 1)
		l.mu.Unlock()
		l.notify(ev)
	}
}

var eventKinds = map[paths.Do]EventKind{
	paths.ReportUp: PathUp, paths.ReportChanged: PathChanged,
	paths.ReportQuiet: PathQuiet, paths.ReportGone: PathsGone,
}

func (l *Link) queueLocked(e paths.Effect) {
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
	l.startNotifyingLocked()
}
