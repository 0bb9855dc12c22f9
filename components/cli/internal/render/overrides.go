package render

import (
	"cmp"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/format"
)

// Overrides prints the operators' overrides.
func Overrides(s Style, list []client.Override) string {
	if len(list) == 0 {
		return s.Line("nothing is paused, frozen, drained, protected or excluded, and no hold is overridden", Dim)
	}
	rows := [][]Cell{}
	for _, m := range list {
		rows = append(rows, []Cell{
			T(overrideText(m), Bold), C(cmp.Or(m.Name, "everything")), C(cmp.Or(clock(m.Until), "taken back")), C(overrideLeft(m)), C(clock(m.At)), C(format.ShortCaller(m.By)), C(m.Reason),
		})
	}
	return s.Table([]string{"OVERRIDE", "ON", "UNTIL", "LEFT", "SINCE", "BY", "REASON"}, rows)
}

// overrideLeft is how much of an override's time is left; empty where it has no end.
func overrideLeft(m client.Override) string {
	if m.Until.IsZero() {
		return ""
	}
	return format.Ago(time.Duration(m.LeftSeconds) * time.Second)
}

// overrideText names an override; an exclusion lists its activities, unless it covers all of them.
func overrideText(m client.Override) string {
	if len(m.From) == 0 {
		return string(m.Kind)
	}
	return string(m.Kind) + " from " + strings.Join(m.From, ", ")
}
