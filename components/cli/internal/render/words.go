package render

import (
	"fmt"
	"time"

	"cadre.dev/client/format"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
)

// since is how long ago at was; "" when it is not known.
func since(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return format.Ago(now.Sub(at))
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

func stateTone(state group.SlotState) Tone {
	switch state {
	case group.SlotAvailable:
		return Good
	case group.SlotUnavailable, group.SlotFailed:
		return Bad
	default:
		return Warn
	}
}

func rolloutTone(state string) Tone {
	switch operation.RolloutState(state) {
	case operation.Complete, operation.PartitionReached:
		return Good
	case operation.FailedState, operation.RolledBack:
		return Bad
	case operation.PausedState, operation.SupersededState, operation.RollingBack:
		return Warn
	case operation.Running, operation.BakingState:
	}
	return Plain
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
