package render

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/format"
)

// Operators prints one line for each operator: role, groups, end and first use of the token.
func Operators(s Style, list []client.Operator, now time.Time) string {
	rows := [][]Cell{}
	for _, o := range list {
		rows = append(rows, []Cell{T(o.Name, Bold), C(operatorRole(o)), C(operatorGroups(o)), operatorEnd(o, now), operatorUse(o, now), C(o.By), operatorNote(o, now)})
	}
	return s.Table([]string{"OPERATOR", "ROLE", "GROUPS", "ENDS", "FIRST USED", "BY", "NOTE"}, rows)
}

// operatorRole is the role; a token that was made by hand in Consul has none.
func operatorRole(o client.Operator) string {
	if o.Fault != "" {
		return o.Role
	}
	return cmp.Or(o.Role, "by hand")
}

func operatorGroups(o client.Operator) string {
	if o.Role == "" {
		return ""
	}
	if len(o.Groups) == 0 {
		return "all"
	}
	return strings.Join(o.Groups, ",")
}

// operatorEnd is the end of the token; the last two weeks are marked.
func operatorEnd(o client.Operator, now time.Time) Cell {
	switch left := o.Expires.Sub(now); {
	case o.Role == "":
		return C("")
	case o.Expires.IsZero():
		return T("never", Warn)
	case left <= 0:
		return T("ended", Bad)
	case left < 14*24*time.Hour:
		return T("in "+format.Ago(left), Warn)
	default:
		return C("in " + format.Ago(left))
	}
}

func operatorUse(o client.Operator, now time.Time) Cell {
	if o.Used.IsZero() {
		return Cell{"not yet", Dim}
	}
	return C(since(o.Used, now))
}

func operatorNote(o client.Operator, now time.Time) Cell {
	switch {
	case o.Fault != "":
		return T(o.Fault, Bad)
	case o.NextExpires.After(now):
		return T("its next token was not used yet", Warn)
	}
	return C("")
}

// IssuedToken prints an operator's new token, or the file that has it.
func IssuedToken(s Style, o client.Operator, token, file string, now time.Time) string {
	expires := o.Expires
	if !o.NextExpires.IsZero() {
		expires = o.NextExpires
	}
	out := fmt.Sprintf("operator %s has a new token: role %s, groups %s, for %s, until %s\n", o.Name, o.Role, operatorGroups(o), format.Ago(expires.Sub(now)), expires.UTC().Format(time.RFC3339))
	if !o.NextExpires.IsZero() && !o.Used.IsZero() {
		out += "the present token works until the first use of the new one\n"
	}
	if file != "" {
		return out + fmt.Sprintf("%s is the context file of %s; hand it over safely, then delete it here. It works with `cadre --context %s operator show`\n", file, o.Name, file)
	}
	return out + "the token is shown once:\n" + s.Line(token, Bold)
}
