package render

import (
	"cmp"

	"cadre.dev/client"
)

// Marks is what operators keep from the leader.
func Marks(s Style, list []client.SlotMark) string {
	if len(list) == 0 {
		return s.Line("nothing is drained, protected or frozen", Dim)
	}
	rows := [][]Cell{}
	for _, m := range list {
		rows = append(rows, []Cell{
			T(string(m.Kind), Bold), C(cmp.Or(m.Name, "everything")), C(cmp.Or(clock(m.Until), "taken back")), C(clock(m.At)), C(m.By), C(m.Reason),
		})
	}
	return s.Table([]string{"MARK", "ON", "UNTIL", "SINCE", "BY", "REASON"}, rows)
}
