package render

import (
	"fmt"
	"strconv"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/format"
)

// Secrets prints one line for each secret: its epoch, since when, the reason, and its holders.
func Secrets(s Style, list []client.Secret, now time.Time) string {
	if len(list) == 0 {
		return s.Line("no secrets: declare one with secret \"name\" { } in the group's file", Dim)
	}
	rows := [][]Cell{}
	for _, one := range list {
		rows = append(rows, []Cell{
			T(one.Group+"/"+one.Name, Bold), C(epochText(one)), C(age(one.RotatedAt, now)), C(one.Owner), C(one.Mode),
			nextRotation(one, now), delivered(one), C(one.By), C(one.Reason),
		})
	}
	return s.Table([]string{"SECRET", "EPOCH", "AGE", "OWNER", "MODE", "NEXT ROTATION", "DELIVERED", "BY", "REASON"}, rows)
}

func epochText(one client.Secret) string {
	if one.Epoch == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(one.Epoch), 10)
}

func age(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return since(at, now)
}

func nextRotation(one client.Secret, now time.Time) Cell {
	switch {
	case one.Step != "":
		return T("now: "+one.Step, Warn)
	case one.Requested:
		return T("asked for", Warn)
	case one.NextRotation.IsZero():
		return Cell{"on request", Dim}
	case !one.NextRotation.After(now):
		return T("due", Warn)
	}
	return C("in " + format.Ago(one.NextRotation.Sub(now)))
}

func delivered(one client.Secret) Cell {
	tone := Good
	if one.Delivered < one.Connected {
		tone = Warn
	}
	return T(fmt.Sprintf("%d/%d", one.Delivered, one.Connected), tone)
}
