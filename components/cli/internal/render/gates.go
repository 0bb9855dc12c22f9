package render

import (
	"cmp"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/format"
	"cadre.dev/core/group"
)

// Gates prints the gates of groups, with the settings in effect.
func Gates(s Style, list []client.Gate) string {
	if len(list) == 0 {
		return s.Line("no group has a gate", Dim)
	}
	rows := [][]Cell{}
	for _, g := range list {
		state := T(g.State, Warn)
		if g.State == group.GateOpen {
			state = T(g.State, Good)
		}
		about := g.Slot
		if about == "" && g.Per == group.GatePerSlot {
			about = "each slot"
		}
		left, until := "", ""
		if g.Set {
			until = "next setting"
		}
		if !g.Until.IsZero() {
			until, left = clock(g.Until), format.Ago(time.Duration(g.LeftSeconds)*time.Second)
		}
		rows = append(rows, []Cell{
			T(g.Group+"/"+g.Gate, Bold), C(cmp.Or(about, "group")), C(strings.Join(g.On, ", ")), state, C(strings.ToLower(g.Step)), C(g.Ticket),
			C(until), C(left), C(format.ShortCaller(g.By)), C(g.Reason),
		})
	}
	return s.Table([]string{"GATE", "OF", "ON", "STATE", "STEP", "TICKET", "UNTIL", "LEFT", "BY", "REASON"}, rows)
}
