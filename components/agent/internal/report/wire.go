package report

import (
	"strings"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/agent/internal/lifecycle"
	"cadre.dev/agent/internal/member"
	"cadre.dev/core/rollout"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func memberView(s member.State) *controlv1.MemberView {
	v := s.View
	return &controlv1.MemberView{
		Role: roleOf(v.Role), Liveness: livenessOf(v.Liveness), Ready: v.Ready, CaughtUp: v.CaughtUp, LagBytes: v.LagBytes,
		Leader: v.Leader, Epoch: v.Epoch, Voters: v.Voters, Learners: v.Learners, MemberIds: v.MemberIDs, Followers: v.Followers, Busy: v.Busy, Version: v.Version, DataFormat: v.DataFormat,
		Message: truncateText(v.Message), MayDisrupt: v.MayDisrupt, MayDisruptReason: truncateText(v.MayDisruptReason),
		QuorumMember: v.QuorumMember,
	}
}

func stepResult(r lifecycle.Result) *controlv1.StepResult {
	return &controlv1.StepResult{
		OperationId: r.Operation, Verb: VerbToProto(r.Verb), Attempt: r.Attempt, State: stateOf(r.State),
		Message: strings.ToValidUTF8(r.Message, "?"), NewLeader: r.NewLeader, Transferred: r.Transferred,
		At: timestamppb.New(r.At),
	}
}

func roleOf(r driver.Role) controlv1.Role {
	switch r {
	case driver.RoleLeader:
		return controlv1.Role_ROLE_LEADER
	case driver.RoleFollower:
		return controlv1.Role_ROLE_FOLLOWER
	case driver.RoleLearner:
		return controlv1.Role_ROLE_LEARNER
	case driver.RoleNone:
		return controlv1.Role_ROLE_NONE
	case driver.RoleUnknown:
	}
	return controlv1.Role_ROLE_UNKNOWN
}

func livenessOf(l driver.Liveness) controlv1.Liveness {
	switch l {
	case driver.LivenessAlive:
		return controlv1.Liveness_LIVENESS_ALIVE
	case driver.LivenessRefused:
		return controlv1.Liveness_LIVENESS_REFUSED
	case driver.LivenessUnknown:
	}
	return controlv1.Liveness_LIVENESS_UNSPECIFIED
}

func healthOf(h rollout.Health) controlv1.Health {
	switch h {
	case rollout.Healthy:
		return controlv1.Health_HEALTH_HEALTHY
	case rollout.Unhealthy:
		return controlv1.Health_HEALTH_UNHEALTHY
	case rollout.Unknown:
	}
	return controlv1.Health_HEALTH_UNKNOWN
}

func stateOf(s rollout.StepState) controlv1.StepState {
	switch s {
	case rollout.StepRunning:
		return controlv1.StepState_STEP_STATE_RUNNING
	case rollout.StepDone:
		return controlv1.StepState_STEP_STATE_DONE
	case rollout.StepAborted:
		return controlv1.StepState_STEP_STATE_ABORTED
	case rollout.StepHeld:
		return controlv1.StepState_STEP_STATE_HELD
	case rollout.StepFailed:
		return controlv1.StepState_STEP_STATE_FAILED
	}
	return controlv1.StepState_STEP_STATE_UNSPECIFIED
}

// VerbToProto and VerbFromProto translate verbs; an unknown one is kept as such.
func VerbToProto(v rollout.Verb) controlv1.Verb {
	switch v {
	case rollout.VerbDrain:
		return controlv1.Verb_VERB_DRAIN
	case rollout.VerbCancelDrain:
		return controlv1.Verb_VERB_CANCEL_DRAIN
	case rollout.VerbPostLaunch:
		return controlv1.Verb_VERB_POST_LAUNCH
	case rollout.VerbRestartService:
		return controlv1.Verb_VERB_RESTART_SERVICE
	}
	return controlv1.Verb_VERB_UNSPECIFIED
}

// VerbFromProto is the inverse of VerbToProto.
func VerbFromProto(v controlv1.Verb) rollout.Verb {
	switch v {
	case controlv1.Verb_VERB_DRAIN:
		return rollout.VerbDrain
	case controlv1.Verb_VERB_CANCEL_DRAIN:
		return rollout.VerbCancelDrain
	case controlv1.Verb_VERB_POST_LAUNCH:
		return rollout.VerbPostLaunch
	case controlv1.Verb_VERB_RESTART_SERVICE:
		return rollout.VerbRestartService
	case controlv1.Verb_VERB_UNSPECIFIED:
	}
	return ""
}
