package render

import (
	"fmt"

	"cadre.dev/client"
)

// Recovery prints the Term and state of the records, the highest ones seen, and the consequence.
func Recovery(s Style, r client.Recovery) string {
	row := func(who string, m client.Watermark) []Cell {
		of := func(n, record uint64) Cell {
			if n > record {
				return T(fmt.Sprint(n), Warn)
			}
			return C(fmt.Sprint(n))
		}
		return []Cell{C(who), of(m.Term, r.Records.Term), of(m.State, r.Records.State)}
	}
	rows := [][]Cell{row("the records say", r.Records), row("this coordinator saw", r.Coordinator)}
	if r.Agents > 0 {
		rows = append(rows, row(fmt.Sprintf("most of %d agents saw", r.Agents), r.Most), row("one agent saw at most", r.Any))
	}
	text := s.Table([]string{"", "TERM", "STATE"}, rows) + "\n"
	switch {
	case r.Done:
		text += s.Paint(fmt.Sprintf("recovered: the next leader resumes above term %d and state %d", r.Raised.Term, r.Raised.State), Good) +
			"\n`cadre cluster status` shows it within moments\n"
	case r.Halted == "":
		text += s.Paint("the records are as far as what was seen of them: there is nothing to recover from", Good) + "\n"
		if r.Agents == 0 {
			text += "no agent reports to this coordinator: the agents' highest values are unknown\n"
		}
	default:
		text += s.Paint("halted: "+r.Halted, Bad) + "\n\n" +
			"nothing was written. Repeat the changes that the backup lacks, then repeat this command with --reason and --yes:\n" +
			fmt.Sprintf("the next leader resumes above term %d and state %d\n", r.Raised.Term, r.Raised.State)
	}
	return text
}
