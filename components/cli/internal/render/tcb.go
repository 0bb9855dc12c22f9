package render

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cadre.dev/core/policy"
)

// TCB prints the operators' decisions on the judgement of machines.
func TCB(s Style, o policy.TCBOverview, now time.Time) string {
	text := "the trust file lets operators grant no exception (tcb.operator_exceptions)\n"
	if o.Limits.MaxDays > 0 {
		text = fmt.Sprintf("the trust file lets operators grant: %s, for at most %d days, advisories %s\n",
			strings.Join(o.Limits.Statuses, ", "), o.Limits.MaxDays, cmp.Or(strings.Join(o.Limits.Advisories, ", "), "none"))
	}
	if len(o.Exceptions) > 0 {
		rows := [][]Cell{}
		for _, e := range o.Exceptions {
			state := Cell{"in force", Good}
			if e.Problem != "" {
				state = Cell{"not in force: " + e.Problem, Bad}
			}
			rows = append(rows, []Cell{T(e.ID, Bold), C(e.Status), C(strings.Join(e.Advisories, ", ")), C(e.FMSPC), C(left(e.Until, now)), C(e.By), C(e.Reason), state})
		}
		text += "\n" + s.Table([]string{"EXCEPTION", "STATUS", "ADVISORIES", "FAMILY", "ENDS", "BY", "REASON", "STATE"}, rows)
	}
	if len(o.Collateral) > 0 {
		rows := [][]Cell{}
		for _, m := range o.Collateral {
			permit := ""
			if m.Permit.Until.After(now) {
				permit = fmt.Sprintf("from %d and %d on, until %s", m.Permit.TCBEvaluation, m.Permit.QEEvaluation, clock(m.Permit.Until))
			}
			rows = append(rows, []Cell{T(m.FMSPC, Bold), C(strconv.Itoa(int(m.TCBEvaluation))), C(strconv.Itoa(int(m.QEEvaluation))), C(clock(m.TCBUntil)), C(permit)})
		}
		text += "\n" + s.Table([]string{"FAMILY", "TCB EVALUATION", "QE EVALUATION", "ENDS", "OLDER ACCEPTED"}, rows)
	}
	if len(o.Entries) > 0 {
		rows := [][]Cell{}
		for _, e := range o.Entries {
			rows = append(rows, []Cell{C(clock(e.At)), C(e.What), C(e.ID), C(e.By), C(e.Text)})
		}
		text += "\n" + s.Table([]string{"AT", "WHAT", "OF", "BY", "TEXT"}, rows)
	}
	if o.ChainProblem != "" {
		text += s.Line("the chain was edited: "+o.ChainProblem, Bad)
	}
	return text
}
