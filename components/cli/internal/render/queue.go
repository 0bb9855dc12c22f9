package render

import (
	"fmt"
	"strconv"
	"strings"

	"cadre.dev/client"
	"cadre.dev/client/format"
)

// Queue prints everything that is planned in all groups, in its order.
func Queue(s Style, q client.Queue) string {
	var b strings.Builder
	if q.Limits != nil {
		b.WriteString(Limits(s, q.LimitsNow) + "\n")
	}
	if len(q.Entries) == 0 {
		b.WriteString(s.Line("nothing is planned in any group", Dim))
	} else {
		rows := [][]Cell{}
		for i, e := range q.Entries {
			tone := map[string]Tone{"running": Good, "begins": Good, "waits": Warn}[e.State]
			why := strings.ToLower(e.Phase)
			for _, h := range e.Holds {
				why = strings.TrimPrefix(why+"; ", "; ") + h.Predicate + ": " + h.Message
			}
			since := ""
			if !e.Since.IsZero() {
				since = clock(e.Since)
			}
			rows = append(rows, []Cell{
				C(strconv.Itoa(i + 1)), T(e.Slot, Bold), C(strings.ToLower(e.Kind)), T(e.State, tone), C(strconv.Itoa(e.Priority)), C(since), C(e.Actor), C(format.ShortCaller(e.By)), C(why),
			})
		}
		b.WriteString(s.Table([]string{"#", "SLOT", "STEP", "STATE", "PRIORITY", "WAITS SINCE", "FOR", "BY", "WHY"}, rows))
	}
	for _, p := range q.Problems {
		b.WriteString(s.Line(p.Group+": "+p.Message, Bad))
	}
	return b.String()
}

// Limits prints the limits of the cluster, and the places in use.
func Limits(s Style, now client.LimitsNow) string {
	l := now.Limits
	if l == nil {
		return s.Line("the cluster has no limits", Dim)
	}
	if l.Unread != "" {
		return s.Line("control/limits cannot be read, and no limited work begins: "+l.Unread, Bad)
	}
	row := func(name string, limit, used int) []Cell {
		tone := Good
		if limit > 0 && used >= limit {
			tone = Warn
		}
		return []Cell{T(name, Bold), C(limitText(limit)), T(strconv.Itoa(used), tone), C(format.ShortCaller(l.By)), C(l.Reason)}
	}
	return s.Table([]string{"LIMIT", "PLACES", "USED", "BY", "REASON"}, [][]Cell{
		row("steps", l.Steps, now.Used.Steps), row("rollouts", l.Rollouts, now.Used.Rollouts), row("creations", l.Creations, now.Used.Creations),
	})
}

// LimitsText is a set of limits in one line.
func LimitsText(l client.Limits) string {
	return fmt.Sprintf("steps %s, rollouts %s, creations %s", limitText(l.Steps), limitText(l.Rollouts), limitText(l.Creations))
}

func limitText(n int) string {
	if n == 0 {
		return "no limit"
	}
	return strconv.Itoa(n)
}
