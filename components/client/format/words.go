package format

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
)

// Short is the short form of a revision or hash: 8 digits. A name that only contains one stays
// whole.
func Short(digest string) string {
	if len(digest) <= 8 || strings.Trim(digest, "0123456789abcdef") != "" {
		return digest
	}
	return digest[:8]
}

// Arrow is "old -> new", or one of them when they are equal or the other is missing.
func Arrow(from, to string) string {
	switch {
	case from == to || from == "":
		return Short(to)
	case to == "":
		return Short(from)
	}
	return Short(from) + " -> " + Short(to)
}

// Ago is a duration in at most two units: 42s, 3m10s, 2h05m, 4d03h.
func Ago(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// Bytes formats an amount with one unit, such as "1.5 MiB".
func Bytes(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

// Word quotes text for a shell where needed, so that it is one word.
func Word(text string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-+=./,:@%", r)
	}
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// OneLine is text without line ends and control characters.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' {
			return ' '
		}
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, text)
}

// Class is R31's class in words, "" for a step that has none.
func Class(c rollout.Class) string {
	switch c {
	case rollout.ClassMarked:
		return "marked next"
	case rollout.ClassBroken:
		return "broken"
	case rollout.ClassAtFailed:
		return "at failed revision"
	case rollout.ClassNonVoter:
		return "non-voter"
	case rollout.ClassFollower:
		return "follower"
	case rollout.ClassLeader:
		return "leader"
	}
	return ""
}

// Role formats a member's role and its lag; "" for a member without a role.
func Role(i group.InstanceStatus) string {
	if i.LagBytes != nil && *i.LagBytes > 0 {
		return fmt.Sprintf("%s, %s behind", i.Role, Bytes(*i.LagBytes))
	}
	if i.Role == "none" {
		return ""
	}
	return i.Role
}

// Slot formats a Slot's name, with a suffix for an extra Slot of a rollout: "web-3 (extra)".
func Slot(slot string, extra bool) string {
	if extra {
		return slot + " (extra)"
	}
	return slot
}

// Excluded formats an exclusion: "excluded from rollout until 2026-05-04 14:00:00 (ann): a crash is
// looked into".
func Excluded(m *group.Override) string {
	text := "excluded from " + strings.Join(m.From, " and ")
	if !m.Until.IsZero() {
		text += " until " + m.Until.Local().Format("2006-01-02 15:04:05")
	}
	if m.By != "" {
		text += " (" + m.By + ")"
	}
	return text + ": " + m.Reason
}

// Stopped formats the freeze or the pause of a group: "frozen by ann until 2026-05-04 14:00:00: a crash is looked into".
func Stopped(o client.Override) string {
	text := "paused"
	if o.Kind == client.OverrideFreeze {
		text = "frozen"
	}
	text += " by " + cmp.Or(ShortCaller(o.By), "an operator")
	if !o.Until.IsZero() {
		text += " until " + o.Until.Local().Format("2006-01-02 15:04:05")
	}
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	return text
}

// Why formats the reasons for a Slot's state; "" for a healthy Slot.
func Why(i group.InstanceStatus) string {
	parts := []string{}
	if i.LastRefusal != "" {
		parts = append(parts, "refused: "+i.LastRefusal)
	}
	if i.Reason != "" {
		parts = append(parts, i.Reason)
	}
	if i.PlatformStatus != "" && i.PlatformStatus != "running" && !strings.Contains(i.Reason, "the platform says "+i.PlatformStatus) {
		parts = append(parts, "platform says "+i.PlatformStatus)
	}
	if i.Exclusion != nil {
		parts = append(parts, Excluded(i.Exclusion))
	}
	return strings.Join(parts, "; ")
}

func orWord(s, word string) string {
	if s == "" {
		return word
	}
	return s
}

var (
	accessor = regexp.MustCompile(`(\([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\)$`)
	madeID   = regexp.MustCompile(`^([a-z]+-[0-9a-f]{8})[0-9a-f-]{24,28}$`)
)

// ShortCaller is a token's name for a table: its description and the first digits of its accessor.
func ShortCaller(by string) string { return accessor.ReplaceAllString(by, "$1)") }

// ShortRequest is a request's id for a table: the first digits of a generated id, any other id in
// full.
func ShortRequest(id string) string { return madeID.ReplaceAllString(id, "$1") }
