package dashboard

import (
	"cadre.dev/client"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
)

// tone says how a word is drawn. Each tone has a glyph of its own, so that colour is not the only carrier.
type tone string

const (
	plain tone = "plain"
	good  tone = "good"
	warn  tone = "warn"
	bad   tone = "bad"
	busy  tone = "busy"
)

var glyphs = map[tone]string{plain: "○", good: "✓", warn: "!", bad: "✕", busy: "↻"}

// mark is a word with its tone.
type mark struct {
	Text string
	Tone tone
}

func (m mark) Glyph() string { return glyphs[m.Tone] }

func healthMark(health string) mark {
	switch rollout.Health(health) {
	case rollout.Healthy:
		return mark{health, good}
	case rollout.Unhealthy:
		return mark{health, bad}
	case rollout.Unknown:
	}
	return mark{orDash(health), warn}
}

func stateMark(i group.InstanceStatus) mark {
	word := mark{string(i.State), warn}
	switch i.State {
	case group.SlotAvailable:
		word.Tone = good
	case group.SlotUnavailable, group.SlotFailed, group.SlotVanished, group.SlotQuarantined, group.SlotMissing, group.SlotOutOfSet:
		word.Tone = bad
	case group.SlotCreating, group.SlotUpdating, group.SlotRefreshing, group.SlotRestarting, group.SlotReplacing, group.SlotDeleting,
		group.SlotJoining, group.SlotBooting, group.SlotSettling, group.SlotDraining, group.SlotStopping:
		word.Tone = busy
	case group.SlotDrained, group.SlotNotDrained, group.SlotStopped, group.SlotTerminating, group.SlotFlapping:
	}
	return word
}

// stoppedMark is the state of a rollout in one word; the override that stops it wins over the word of the record.
func stoppedMark(state string, stop *client.Override) mark {
	switch {
	case stop == nil:
		return rolloutMark(state)
	case stop.Kind == client.OverrideFreeze:
		return mark{"Frozen", warn}
	}
	return mark{"Paused", warn}
}

func rolloutMark(state string) mark {
	switch operation.RolloutState(state) {
	case operation.Running:
		return mark{"Running", busy}
	case operation.BakingState:
		return mark{"Baking", busy}
	case operation.Complete:
		return mark{"Complete", good}
	case operation.PartitionReached:
		return mark{"Partition reached", good}
	case operation.FailedState:
		return mark{"Failed", bad}
	case operation.RollingBack:
		return mark{"Rolling back", warn}
	case operation.RolledBack:
		return mark{"Rolled back", bad}
	case operation.PausedState:
		return mark{"Paused", warn}
	case operation.SupersededState:
		return mark{"Superseded", plain}
	}
	if state == "" {
		return mark{"No rollout", plain}
	}
	return mark{state, plain}
}

func phaseMark(p operation.Phase) mark {
	switch p {
	case operation.Done:
		return mark{string(p), good}
	case operation.Failed:
		return mark{string(p), bad}
	case operation.Aborted:
		return mark{string(p), plain}
	case operation.Draining, operation.Drained, operation.Acting, operation.Booting, operation.Joining, operation.Settling:
	}
	return mark{string(p), busy}
}

func admissionMark(s policy.State) mark {
	switch s {
	case policy.StateAdmitted:
		return mark{string(s), good}
	case policy.StateDenied, policy.StateExpired:
		return mark{string(s), bad}
	case policy.StateReattest, policy.StateNone:
	}
	return mark{string(s), warn}
}

// ratio is "2 of 3", good when nothing lacks.
func ratio(n, of int) bar {
	b := bar{N: n, Of: of, Tone: good}
	switch {
	case n == 0 && of > 0:
		b.Tone = bad
	case n < of:
		b.Tone = warn
	}
	return b
}

// bar is a share that is drawn and written.
type bar struct {
	N, Of int
	Tone  tone
}

func (b bar) Glyph() string { return glyphs[b.Tone] }

// Width is the filled part, 0 to 100.
func (b bar) Width() int {
	if b.Of <= 0 {
		return 0
	}
	return min(100, max(0, b.N*100/b.Of))
}

func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}
