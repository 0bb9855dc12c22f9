package door

import (
	"fmt"
	"strings"
)

// Table is the table of the rules for people, in Markdown.
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

// Shares is the table of the limits for people, in Markdown.
func Shares() string {
	l := defaults
	return fmt.Sprintf(`| what | of one member | of all |
|---|---|---|
| connections | %d | %d |
| requests that Consul answers at once | %d | %d |
| requests that wait for a change | %d | %d |
| requests in a second | %.0f, after %.0f at once | – |
| sessions | %d | – |
`, l.Conns, l.AllConns, l.Running, l.AllRunning, l.Blocked, l.AllBlocked, l.Rate, l.Burst, l.Sessions)
}
