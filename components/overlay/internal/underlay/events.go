package underlay

import "cadre.dev/overlay/internal/underlay/paths"

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

// Events is closed with the Link. An owner that is too slow loses the oldest.
func (l *Link) Events() <-chan Event { return l.events }

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
		"kind", string(ev.Path.Kind), "attempt", ev.Path.Attempt, "reason", ev.Reason)
	for {
		select {
		case l.events <- ev:
			return
		default:
		}
		select {
		case <-l.events:
		default:
		}
	}
}
