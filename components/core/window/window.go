package window

import (
	"slices"
	"time"
)

// MaxWindows and MaxExcept bound the windows of a group, and the dates of one window.
const (
	MaxWindows = 16
	MaxExcept  = 128
)

// Window is a span of wall-clock time that opens on days of the week. A step may begin at an instant if the clocks of
// the zone show a time of the span then. So a span that a change to summer time skips does not open on that day, and a
// span that the change back repeats opens twice.
type Window struct {
	// Days of the week on which the window opens, such as "Mon" or "Sat-Mon"; empty: every day.
	Days []string `json:"days,omitempty"`
	// From and To are times of day, such as "09:00"; To may be "24:00". A To that is earlier than From is on the next
	// day. To is the first minute outside.
	From string `json:"from"`
	To   string `json:"to"`
	// Zone is a name of the IANA database, such as "Europe/Berlin".
	Zone string `json:"zone"`
	// Except are dates of the zone, such as "2026-12-24". The window does not open on such a date, and a window that is
	// open since the day before closes when the date begins.
	Except []string `json:"except,omitempty"`
}

// minutesOfDay is the last minute of a day, 24:00.
const minutesOfDay = 24 * 60

// span is a Window in numbers.
type span struct {
	days     [7]bool
	from, to int // minutes of the day
	zone     *time.Location
	except   []date // sorted
}

// date counts days from 1970-01-01, without a zone.
type date int

func dateOf(year int, month time.Month, day int) date {
	return date(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / secondsOfDay)
}

const secondsOfDay = minutesOfDay * 60

// weekday of the date; 1970-01-01 was a Thursday.
func (d date) weekday() time.Weekday { return time.Weekday(((int(d)+int(time.Thursday))%7 + 7) % 7) }

func (s *span) overnight() bool { return s.to < s.from }

// begins reports that the span opens on d.
func (s *span) begins(d date) bool { return s.days[d.weekday()] && !s.excepted(d) }

func (s *span) excepted(d date) bool {
	_, found := slices.BinarySearch(s.except, d)
	return found
}

// local is the reading of a clock: a date, and the seconds since its midnight.
type local struct {
	date   date
	second int
}

func (s *span) localAt(t time.Time) local {
	t = t.In(s.zone)
	hour, minute, second := t.Clock()
	return local{dateOf(t.Date()), (hour*60+minute)*60 + second}
}

// open reports that the span is open while the clocks of the zone show l.
func (s *span) open(l local) bool {
	if s.excepted(l.date) {
		return false
	}
	from, to := s.from*60, s.to*60
	if !s.overnight() {
		return s.begins(l.date) && l.second >= from && l.second < to
	}
	return s.begins(l.date) && l.second >= from || s.begins(l.date-1) && l.second < to
}

// next returns the first instant from t on at which the span is open. Between two changes of the zone's offset, the
// clocks run like any other, so that each of these parts is searched by days.
func (s *span) next(t time.Time) (time.Time, bool) {
	// Each excepted date, and each change of the offset, costs one opening of a week at most.
	last := t.Add(time.Duration(7*(len(s.except)+4)) * 24 * time.Hour)
	for !t.After(last) {
		l := s.localAt(t)
		if s.open(l) {
			return t, true
		}
		_, end := t.In(s.zone).ZoneBounds()
		for day := l.date; ; day++ {
			wait := time.Duration(int(day-l.date)*secondsOfDay+s.from*60-l.second) * time.Second
			at := t.Truncate(time.Second).Add(wait)
			if at.After(last) {
				return time.Time{}, false
			}
			if !end.IsZero() && !at.Before(end) {
				t = end // from then on the clocks show other times
				break
			}
			if wait > 0 && s.begins(day) {
				return at, true
			}
		}
	}
	return time.Time{}, false
}

// Windows are the windows of a group. A step may begin while any of them is open.
type Windows []Window

// Next returns the first instant from t on at which one of the windows is open, which is t while one is, and that
// window. Without any window, every instant is open. ok is false if no window opens, which validation prevents: then
// nothing may begin.
func (ws Windows) Next(t time.Time) (at time.Time, in Window, ok bool) {
	if len(ws) == 0 {
		return t, Window{}, true
	}
	for _, w := range ws {
		s, problems := w.parse()
		if len(problems) > 0 {
			continue
		}
		if next, opens := s.next(t); opens && (!ok || next.Before(at)) {
			at, in, ok = next, w, true
		}
	}
	return at, in, ok
}

// Open reports that a step may begin at t.
func (ws Windows) Open(t time.Time) bool {
	at, _, ok := ws.Next(t)
	return ok && !at.After(t)
}
