package rollout

import (
	"time"

	"cadre.dev/core/window"
)

func (w *world) opening() opening {
	return w.found.opening.of(func() (o opening) {
		o.at, o.in, o.ok = w.spec.UpdatePolicy.Windows.Next(w.now)
		return o
	})
}

// closed: no window is open at a time.
func (o opening) closed(now time.Time) bool { return !o.ok || o.at.After(now) }

// windowClosed: the spec has windows, all are closed now, and no operator overrides that.
func (w *world) windowClosed() bool {
	return w.opening().closed(w.now) && w.overrideOf(HoldOutsideWindow) == nil
}

// holdsOfWindow: a step that is under way is finished, also towards another target Revision (R97).
func (w *world) holdsOfWindow(c candidate, _ evaluation) []Hold {
	o := w.opening()
	if c.m.open != nil || !o.closed(w.now) {
		return nil
	}
	if !o.ok {
		return []Hold{hold(HoldOutsideWindow, "no window of update_policy.window opens")}
	}
	return []Hold{holdUntil(o.at, HoldOutsideWindow, "no window of update_policy.window is open; the next one opens at %s", o.text())}
}

// text is the time of the opening in the window's zone and in UTC.
func (o opening) text() string {
	const minute, second = "2006-01-02 15:04", "2006-01-02 15:04:05"
	layout := minute
	if o.at.Second() != 0 {
		layout = second
	}
	utc := o.at.UTC().Format(layout + " MST")
	zone, err := window.Zone(o.in.Zone)
	if err != nil || zone.String() == time.UTC.String() {
		return utc
	}
	return o.at.In(zone).Format(layout) + " " + o.in.Zone + " (" + utc + ")"
}
