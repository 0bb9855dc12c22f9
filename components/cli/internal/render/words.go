package render

import (
	"fmt"
	"strings"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// Short is a revision or hash as people say it: 8 digits. Names that only
// contain one stay whole.
func Short(digest string) string {
	if len(digest) <= 8 || strings.Trim(digest, "0123456789abcdef") != "" {
		return digest
	}
	return digest[:8]
}

// Arrow is "old -> new", or the one of them when they are equal or one is missing.
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

// since is how long ago at was; "" when it is not known.
func since(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return Ago(now.Sub(at))
}

func clock(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.Local().Format("2006-01-02 15:04:05")
}

func healthTone(health string) Tone {
	switch rollout.Health(health) {
	case rollout.Healthy:
		return Good
	case rollout.Unhealthy:
		return Bad
	case rollout.Unknown:
	}
	return Warn
}

func stateTone(state string) Tone {
	switch state {
	case "Available":
		return Good
	case "Unavailable", "Failed":
		return Bad
	}
	return Warn
}

func rolloutTone(state string) Tone {
	switch operation.RolloutState(state) {
	case operation.Complete, operation.PartitionReached:
		return Good
	case operation.FailedState:
		return Bad
	case operation.PausedState, operation.SupersededState:
		return Warn
	case operation.Running:
	}
	return Plain
}

// class is R31's class in words.
func class(c rollout.Class) string {
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

func ratio(n, of int) Cell {
	tone := Good
	if n < of {
		tone = Warn
	}
	if n == 0 && of > 0 {
		tone = Bad
	}
	return Cell{fmt.Sprintf("%d/%d", n, of), tone}
}
