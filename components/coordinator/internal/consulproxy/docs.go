package consulproxy

import (
	"fmt"
	"strings"
)

// Table returns the table of the rules in Markdown, for the docs.
func Table() string {
	var b strings.Builder
	b.WriteString("| request | parameters | body, at most | also judged or changed | why |\n|---|---|---|---|---|\n")
	for _, r := range Rules {
		query, body, check := "–", "–", string(r.Check)
		if len(r.Query) > 0 {
			query = "`" + strings.Join(r.Query, "`, `") + "`"
		}
		if r.MaxBody > 0 {
			body = fmt.Sprintf("%d KiB", r.MaxBody>>10)
		}
		if r.Open {
			check = "needs no token"
		}
		if check == "" {
			check = "–"
		}
		fmt.Fprintf(&b, "| `%s %s` | %s | %s | %s | %s |\n", r.Method, r.Path, query, body, check, r.Why)
	}
	return b.String()
}

// Shares returns the table of the limits in Markdown, for the docs.
func Shares() string {
	l := defaults
	var walks []string
	for _, r := range Rules {
		if r.Walks {
			walks = append(walks, "`"+r.Path+"`")
		}
	}
	return fmt.Sprintf(`| what | of one member | of all |
|---|---|---|
| connections | %d | %d |
| open requests | %d | %d that Consul works on |
| blocking queries | %d | %d |
| requests in a second | %.0f, after %.0f at once | – |
| bytes of bodies in a second | %s, after %s at once | – |
| bytes of answers in a second | %s, after %s at once | – |
| bytes of one answer | %s | – |
| bytes of unread answers | %s | %s |
| bytes of the keys of its group, as Consul shows them | %s | – |
| sessions | %d | – |

A request with %s, and one for %s, makes Consul scan all members and counts for %d.
Each member may always have %s of unread answers, whatever the others have. A transaction that
changes and reads keys reserves the room of a largest answer until Consul has answered.
`, l.Conns, l.AllConns, l.Running, l.AllRunning, l.Blocked, l.AllBlocked, l.Rate, l.Burst,
		size(l.Sent), size(l.SentBurst), size(l.Answered), size(l.AnsweredBurst), size(l.Answer), size(l.Unread), size(l.AllUnread), size(l.Stored), l.Sessions,
		"`filter`", strings.Join(walks, ", "), walkCost, size(l.Little))
}
