package render

import (
	"cmp"
	"strings"

	"cadre.dev/client"
)

// Marks is what operators keep from the leader.
func Marks(s Style, list []client.SlotMark) string {
	if len(list) == 0 {
		return s.Line("nothing is drained, protected, excluded or frozen", Dim)
	}
	rows := [][]Cell{}
	for _, m := range list {
		rows = append(rows, []Cell{
			T(markText(m), Bold), C(cmp.Or(m.Name, "everything")), C(cmp.Or(clock(m.Until), "taken back")), C(clock(m.At)), C(m.By), C(m.Reason),
		})
	}
	return s.Table([]string{"MARK", "ON", "UNTIL", "SINCE", "BY", "REASON"}, rows)
}

// markText is what a mark asks for: an exclusion says from what, unless it is from all that there is.
func markText(m client.SlotMark) string {
	if len(m.From) == 0 {
		return string(m.Kind)
	}
	return string(m.Kind) + " from " + strings.Join(m.From, ", ")
}
