package consulproxy

import (
	"fmt"
	"slices"
	"strings"
)

// Table returns the table of the rules in Markdown, for the docs.
func Table() string {
	var rows []struct{ requests, rest string }
	for i, r := range Rules {
		rest := columns(r)
		if last := len(rows) - 1; last >= 0 && rows[last].rest == rest && Rules[i-1].Method == r.Method {
			rows[last].requests += ", `" + r.Path + "`"
			continue
		}
		rows = append(rows, struct{ requests, rest string }{"`" + r.Method + " " + r.Path + "`", rest})
	}
	var b strings.Builder
	b.WriteString("| requests | parameters | body, at most | also judged or changed |\n|---|---|---|---|\n")
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s | %s |\n", row.requests, row.rest)
	}
	return b.String()
}

// columns are the columns of a rule after its request.
func columns(r Rule) string {
	body, check := "–", string(r.Check)
	if r.MaxBody > 0 {
		body = fmt.Sprintf("%d KiB", r.MaxBody>>10)
	}
	if r.Open {
		check = "needs no token"
	}
	if check == "" {
		check = "–"
	}
	return parameters(r.Query) + " | " + body + " | " + check
}

// parameters names the sets of parameters that many requests share.
func parameters(query []string) string {
	if len(query) == 0 {
		return "–"
	}
	var names []string
	for _, set := range []struct {
		name  string
		names []string
	}{{"*filtered*", filtered}, {"*blocking*", blocking}, {"*reads*", reads}} {
		if len(query) >= len(set.names) && slices.Equal(query[:len(set.names)], set.names) {
			names, query = []string{set.name}, query[len(set.names):]
			break
		}
	}
	for _, one := range query {
		names = append(names, "`"+one+"`")
	}
	return strings.Join(names, ", ")
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
	return fmt.Sprintf(`| bound | of one member | of all |
|---|---|---|
| connections | %d | %d |
| open requests | %d | %d that Consul works on |
| blocking queries | %d | %d |
| requests in a second | %.0f, after %.0f at once | – |
| bytes of bodies in a second | %s, after %s at once | – |
| bytes of answers in a second | %s, after %s at once | – |
| bytes of one answer | %s | – |
| bytes of unread answers | %s | %s |
| bytes of the keys of its group | %s | – |
| sessions | %d | – |

Requests with %s or for %s scan all members and count for %d.
Each member may always have %s of unread answers. A transaction that changes and reads keys reserves the room of a
largest answer until Consul has answered.
`, l.Conns, l.AllConns, l.Running, l.AllRunning, l.Blocked, l.AllBlocked, l.Rate, l.Burst,
		size(l.Sent), size(l.SentBurst), size(l.Answered), size(l.AnsweredBurst), size(l.Answer), size(l.Unread), size(l.AllUnread), size(l.Stored), l.Sessions,
		"`filter`", strings.Join(walks, ", "), walkCost, size(l.Little))
}
