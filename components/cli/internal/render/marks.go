package render

import (
	"cmp"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/tell"
)

// Marks is what operators keep from the leader.
func Marks(s Style, list []client.SlotMark) string {
	if len(list) == 0 {
		return s.Line("nothing is drained, protected, excluded or frozen", Dim)
	}
	rows := [][]Cell{}
	for _, m := range list {
		rows = append(rows, []Cell{
			T(markText(m), Bold), C(cmp.Or(m.Name, "everything")), C(cmp.Or(clock(m.Until), "taken back")), C(markLeft(m)), C(clock(m.At)), C(m.By), C(m.Reason),
		})
	}
	return s.Table([]string{"MARK", "ON", "UNTIL", "LEFT", "SINCE", "BY", "REASON"}, rows)
}

// markLeft is how much of a mark's time is left; empty where it has no end.
func markLeft(m client.SlotMark) string {
	if m.Until.IsZero() {
		return ""
	}
	return tell.Ago(time.Duration(m.LeftSeconds) * time.Second)
}

// markText is what a mark asks for: an exclusion says from what, unless it is from all that there is.
func markText(m client.SlotMark) string {
	if len(m.From) == 0 {
		return string(m.Kind)
	}
	return string(m.Kind) + " from " + strings.Join(m.From, ", ")
}
