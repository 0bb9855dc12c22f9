package window

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Problem is a fault of one field of a Window.
type Problem struct {
	// Field with an index, such as "days[1]".
	Field   string
	Message string
}

// Problems returns all faults of the window; none: it opens again after any time.
func (w Window) Problems() []Problem {
	_, problems := w.parse()
	return problems
}

func (w Window) parse() (s span, problems []Problem) {
	add := func(field, format string, args ...any) {
		problems = append(problems, Problem{field, fmt.Sprintf(format, args...)})
	}
	s.days = [7]bool{true, true, true, true, true, true, true}
	if len(w.Days) > 0 {
		s.days = [7]bool{}
	}
	for i, text := range w.Days {
		if days, ok := parseDays(text); !ok {
			add(fmt.Sprintf("days[%d]", i), "%.64q is no day: write a day such as Mon, or a range such as Mon-Fri", text)
		} else {
			for _, day := range days {
				s.days[day] = true
			}
		}
	}
	var fromOK, toOK bool
	if s.from, fromOK = parseTime(w.From); !fromOK || s.from == minutesOfDay {
		fromOK = false
		add("from", "%.64q is no time of day: write 00:00 to 23:59, such as 09:00", w.From)
	}
	if s.to, toOK = parseTime(w.To); !toOK {
		add("to", "%.64q is no time of day: write 00:00 to 24:00, such as 16:00", w.To)
	}
	if fromOK && toOK && s.from == s.to {
		add("to", "is %s, as from is: the window never opens; for the whole day, use from = \"00:00\" and to = \"24:00\"", w.To)
	}
	zone, err := Zone(w.Zone)
	if err != nil {
		add("zone", "%s", err)
	}
	s.zone = zone
	if len(w.Except) > MaxExcept {
		add("except", "has %d dates, at most %d are allowed: remove those that are past", len(w.Except), MaxExcept)
		return s, problems
	}
	for i, text := range w.Except {
		day, err := time.Parse(time.DateOnly, text)
		if err != nil {
			add(fmt.Sprintf("except[%d]", i), "%.64q is no date: write it like 2026-12-24", text)
			continue
		}
		s.except = append(s.except, dateOf(day.Date()))
	}
	slices.Sort(s.except)
	return s, problems
}

// names of the days, from time.Sunday on.
var names = []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}

// parseDays returns the days of "Mon", or of a range such as "Sat-Mon", which may pass the end of a week.
func parseDays(text string) (days []int, ok bool) {
	first, last, ranges := strings.Cut(text, "-")
	if !ranges {
		last = first
	}
	from, to := slices.Index(names, first), slices.Index(names, last)
	if from < 0 || to < 0 {
		return nil, false
	}
	for day := from; ; day = (day + 1) % 7 {
		days = append(days, day)
		if day == to {
			return days, true
		}
	}
}

// parseTime returns the minutes of "HH:MM" since midnight.
func parseTime(text string) (minutes int, ok bool) {
	if len(text) != 5 || text[2] != ':' {
		return 0, false
	}
	hour, errHour := strconv.ParseUint(text[:2], 10, 8)
	minute, errMinute := strconv.ParseUint(text[3:], 10, 8)
	minutes = int(hour)*60 + int(minute)
	return minutes, errHour == nil && errMinute == nil && minute < 60 && minutes <= minutesOfDay
}
