package group

import (
	"fmt"
	"time"
)

const (
	// PromoteAuto opens the next stage when the bake is over, PromoteAsk when an operator asked for it as well.
	PromoteAuto = "auto"
	PromoteAsk  = "ask"

	maxStages = 16
	maxBake   = 7 * 24 * time.Hour
)

// Stage lets a part of the Slots move to the target, and then waits (R91, R94, R95). It is not part of the Revision.
type Stage struct {
	// Slots is how many Slots of the group may be at the target; excludes Percent.
	Slots int `json:"slots,omitempty"`
	// Percent of Replicas, rounded down, floor 1.
	Percent int `json:"percent,omitempty"`
	// Bake is the time after the arrival of all Slots of the stage in which they have to stay available.
	Bake Duration `json:"bake,omitempty"`
	// Promote is "auto" (default) or "ask".
	Promote string `json:"promote,omitempty"`
}

// Asks reports that an operator has to promote the stage.
func (s Stage) Asks() bool { return s.Promote == PromoteAsk }

// Of returns how many of the Slots may be at the target.
func (s Stage) Of(replicas int) int {
	if s.Percent != 0 {
		return percentOf(s.Percent, replicas)
	}
	return clamp(s.Slots, 0, replicas)
}

func (v *validator) stages(s Spec) {
	const path = "update_policy.stage"
	p := s.UpdatePolicy
	if p.Bake != 0 {
		v.within("update_policy.bake", "R91", p.Bake.D(), maxBake)
	}
	if len(p.Stages) > maxStages {
		v.add(path, "R94", "has %d stages, at most %d are allowed", len(p.Stages), maxStages)
	}
	if len(p.Stages) > 0 && p.Type == Opportunistic {
		v.add(path, "R94", "stands in a group whose updates are %s: no step of a rollout begins there, so no stage ever ends; leave the stages out, or use %s", Opportunistic, Proactive)
	}
	for i, one := range p.Stages {
		v.stage(s, fmt.Sprintf("%s[%d]", path, i), one)
		if i > 0 {
			v.increases(s, fmt.Sprintf("%s[%d]", path, i), p.Stages[i-1], one)
		}
	}
}

func (v *validator) stage(s Spec, path string, one Stage) {
	switch {
	case one.Slots != 0 && one.Percent != 0:
		v.add(path+".slots", "R94", "and percent are both set: keep one")
	case one.Slots == 0 && one.Percent == 0:
		v.add(path, "R94", "has neither slots nor percent: say how many slots of the group may be at the new revision")
	}
	if one.Percent < 0 || one.Percent > 100 {
		v.add(path+".percent", "R94", "is %d: must be 1 to 100", one.Percent)
	}
	if one.Slots < 0 || one.Slots > max(s.Replicas, 1) {
		v.add(path+".slots", "R94", "is %d: must be 1 to %d, which is replicas", one.Slots, s.Replicas)
	}
	if one.Bake != 0 {
		v.within(path+".bake", "R91", one.Bake.D(), maxBake)
	}
	if one.Promote != PromoteAuto && one.Promote != PromoteAsk {
		v.add(path+".promote", "R95", "%q is unknown: use %q or %q", one.Promote, PromoteAuto, PromoteAsk)
	}
}

// increases refuses a stage that takes fewer Slots than the one before. Two percents of a small group may be the same
// number of Slots.
func (v *validator) increases(s Spec, path string, before, one Stage) {
	sameUnit := before.Slots != 0 && one.Slots != 0 && one.Slots <= before.Slots || before.Percent != 0 && one.Percent != 0 && one.Percent <= before.Percent
	if was, is := before.Of(s.Replicas), one.Of(s.Replicas); sameUnit || is < was {
		v.add(path, "R94", "lets %d of %d slots move, and the stage before it %d: each stage must let more slots move than the one before; put them in that order", is, s.Replicas, was)
	}
}

// stageWarnings name the stages that change nothing.
func stageWarnings(s Spec) (out []string) {
	was := 0
	for i, one := range s.UpdatePolicy.Stages {
		switch is := one.Of(s.Replicas); {
		case is >= s.Replicas:
			out = append(out, fmt.Sprintf("stage_of_all: update_policy.stage[%d] lets all %d slots move, and nothing is left to promote: only update_policy.bake applies after the last slot (R91)", i, s.Replicas))
		case is == was:
			out = append(out, fmt.Sprintf("same_stage: update_policy.stage[%d] lets %d of %d slots move, as the stage before it: it only bakes for longer (R94)", i, is, s.Replicas))
		default:
			was = is
		}
	}
	return out
}
