package render

import (
	"cmp"
	"strconv"

	"cadre.dev/client/format"
	"cadre.dev/core/audit"
)

// Audit prints one line for each entry of the audit chain.
func Audit(s Style, list []audit.Entry) string {
	if len(list) == 0 {
		return s.Line("no entries in this time: see --since", Dim)
	}
	rows := [][]Cell{}
	for _, e := range list {
		tone := Plain
		switch e.Who {
		case audit.KV:
			tone = Warn
		case audit.Leader:
			tone = Dim
		case audit.Operator:
		}
		rows = append(rows, []Cell{
			C(strconv.FormatUint(e.Number, 10)), C(clock(e.At)), T(string(e.Who), tone), C(format.ShortCaller(e.By)), T(e.Verb, Bold), C(e.Object),
			C(cmp.Or(format.Short(e.Before), "absent") + " -> " + cmp.Or(format.Short(e.After), "absent")), C(format.ShortRequest(e.Request)), C(e.Reason),
		})
	}
	return s.Table([]string{"N", "TIME", "WHO", "BY", "ACT", "RECORD", "VALUE", "REQUEST", "REASON"}, rows)
}
