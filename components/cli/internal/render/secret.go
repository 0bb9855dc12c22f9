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
			T(one.Group+"/"+one.Name, Bold), epochText(one), C(source(one)), C(age(one.RotatedAt, now)), C(one.Owner), C(one.Mode),
			nextRotation(one, now), delivered(one), C(one.By), C(one.Reason),
		})
	}
	return s.Table([]string{"SECRET", "EPOCH", "SOURCE", "AGE", "OWNER", "MODE", "NEXT ROTATION", "DELIVERED", "BY", "REASON"}, rows)
}

func epochText(one client.Secret) Cell {
	switch {
	case one.NoValue:
		return T("no value", Warn)
	case one.Epoch == 0:
		return C("")
	}
	return C(strconv.FormatUint(uint64(one.Epoch), 10))
}

// source names the maker of the value.
func source(one client.Secret) string {
	if one.Source == "" {
		return "generated"
	}
	return one.Source
}

// SecretSet prints the outcome of a new value, and the next step.
func SecretSet(s Style, done client.Sealed, lineEnd bool) string {
	name := done.Group + "/" + done.Name
	text := fmt.Sprintf("epoch %d of %s is in force; its %d bytes are sealed to the key that %s proved; look: `cadre secret list %s`", done.Epoch, name, done.Bytes, done.By, done.Group)
	switch {
	case done.DryRun:
		text = fmt.Sprintf("%s proved its key, and the %d bytes would be epoch %d of %s; nothing was changed", done.By, done.Bytes, done.Epoch, name)
	case !done.InForce:
		text = fmt.Sprintf("epoch %d of %s waits for the leader; its %d bytes are sealed to the key that %s proved; look: `cadre secret list %s`", done.Epoch, name, done.Bytes, done.By, done.Group)
	}
	if lineEnd {
		text += "\nthe value ends with a line end, which is part of it"
	}
	return text + "\n"
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
	case one.Source != "":
		return Cell{"by an operator", Dim}
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
	if one.Ahead > 0 {
		return T(fmt.Sprintf("%d/%d, %d later", one.Delivered, one.Connected, one.Ahead), Warn)
	}
	return T(fmt.Sprintf("%d/%d", one.Delivered, one.Connected), tone)
}
