package reports

import (
	"maps"
	"slices"
	"time"

	"cadre.dev/core/rollout"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// relevant reports whether a plan could differ between a and b. Sequence, time and byte counts
// change constantly and decide nothing.
func relevant(a, b *controlv1.Report) bool {
	ma, mb := a.GetMember(), b.GetMember()
	switch {
	case a.GetMemberKnown() != b.GetMemberKnown(),
		ma.GetRole() != mb.GetRole(), ma.GetLiveness() != mb.GetLiveness(), ma.GetReady() != mb.GetReady(),
		ma.GetCaughtUp() != mb.GetCaughtUp(), (ma.GetCaughtUp() || ma != nil && ma.CaughtUp != nil) != (mb.GetCaughtUp() || mb != nil && mb.CaughtUp != nil),
		ma.GetLeader() != mb.GetLeader(), ma.GetEpoch() != mb.GetEpoch(), !slices.Equal(ma.GetVoters(), mb.GetVoters()),
		!slices.Equal(ma.GetLearners(), mb.GetLearners()), !maps.Equal(ma.GetMemberIds(), mb.GetMemberIds()),
		!slices.Equal(ma.GetFollowers(), mb.GetFollowers()), !slices.Equal(ma.GetBusy(), mb.GetBusy()), ma.GetMayDisrupt() != mb.GetMayDisrupt(), ma.GetQuorumMember() != mb.GetQuorumMember(),
		ma.GetVersion() != mb.GetVersion(), ma.GetDataFormat() != mb.GetDataFormat(),
		!slices.Equal(a.GetFaults(), b.GetFaults()), a.GetAgentSpec() != b.GetAgentSpec(), len(a.GetChecks()) != len(b.GetChecks()), len(a.GetSteps()) != len(b.GetSteps()),
		(a.GetHealthyFor().AsDuration() == 0) != (b.GetHealthyFor().AsDuration() == 0):
		return true
	}
	for i, check := range a.GetChecks() {
		if other := b.GetChecks()[i]; check.GetHealth() != other.GetHealth() || check.GetInformative() != other.GetInformative() || check.GetPending() != other.GetPending() {
			return true
		}
	}
	for i, step := range a.GetSteps() {
		other := b.GetSteps()[i]
		if step.GetState() != other.GetState() || step.GetOperationId() != other.GetOperationId() ||
			step.GetAttempt() != other.GetAttempt() || step.GetVerb() != other.GetVerb() || step.GetMessage() != other.GetMessage() {
			return true
		}
	}
	return false
}

// Observed converts a report for the planner.
func (r Received) Observed() *rollout.Report {
	report, member := r.Report, r.Report.GetMember()
	health, reason := healthOf(report, counts)
	out := &rollout.Report{
		BootID: r.BootID, ReceivedAt: r.At, CutAt: r.CutAt, Health: health, HealthReason: reason,
		HealthyFor: r.HealthyFor, BootAt: timeOf(report),
		Faults: faultsOf(report), AgentSpec: report.GetAgentSpec(),
		MemberView: rollout.MemberView{
			Role: roleOf(report), MemberKnown: report.GetMemberKnown(), Liveness: livenessOf(member), MemberReady: member.GetReady(),
			Busy: member.GetBusy(), MayDisrupt: member.GetMayDisrupt(), MayDisruptReason: member.GetMayDisruptReason(), Message: member.GetMessage(),
			Version: member.GetVersion(), DataFormat: member.GetDataFormat(),
		},
		SetView: rollout.SetView{
			Leader: member.GetLeader(), Epoch: member.GetEpoch(), Voters: member.GetVoters(), Learners: member.GetLearners(),
			MemberIDs: member.GetMemberIds(), Followers: member.GetFollowers(), QuorumMember: member.GetQuorumMember(),
		},
	}
	if member != nil {
		out.CaughtUp, out.LagBytes = member.CaughtUp, member.LagBytes
	}
	for _, check := range report.GetChecks() {
		switch {
		case check.GetPending():
			out.Pending = append(out.Pending, check.GetName())
		case counts(check) && check.GetHealth() == controlv1.Health_HEALTH_UNHEALTHY:
			out.Failing = append(out.Failing, check.GetName())
		}
	}
	for _, s := range report.GetSteps() {
		out.Steps = append(out.Steps, rollout.StepReport{
			Operation: s.GetOperationId(), Verb: verbs[s.GetVerb()], Attempt: int(s.GetAttempt()), State: states[s.GetState()],
			Message: s.GetMessage(), Transferred: s.GetTransferred(), NewLeader: s.GetNewLeader(),
		})
	}
	return out
}

// counts reports whether the check determines the member's health.
func counts(check *controlv1.CheckResult) bool { return !check.GetInformative() && !check.GetPending() }

// faultsOf returns the report's faults and the faults of its informative checks, which an operator
// would see nowhere else.
func faultsOf(report *controlv1.Report) []string {
	out := report.GetFaults()
	for _, check := range report.GetChecks() {
		if check.GetInformative() && check.GetMessage() != "" {
			out = append(slices.Clip(out), check.GetName()+": "+check.GetMessage())
		}
	}
	return out
}

// healthOf returns the worst of the counted checks and of the driver's own report: negative beats
// unknown, unknown beats positive (R10).
func healthOf(report *controlv1.Report, counted func(*controlv1.CheckResult) bool) (rollout.Health, string) {
	health, reason := rollout.Healthy, ""
	worsen := func(to rollout.Health, why string) {
		if health == rollout.Healthy || health == rollout.Unknown && to == rollout.Unhealthy {
			health, reason = to, why
		}
	}
	switch member := report.GetMember(); {
	case !report.GetMemberKnown():
		worsen(rollout.Unknown, orElse(member.GetMessage(), "the workload driver has not answered yet"))
	case member.GetLiveness() == controlv1.Liveness_LIVENESS_UNSPECIFIED:
		worsen(rollout.Unknown, orElse(member.GetMessage(), "the workload does not answer"))
	case member.GetLiveness() == controlv1.Liveness_LIVENESS_REFUSED:
		worsen(rollout.Unhealthy, orElse(member.GetMessage(), "the workload refuses connections"))
	case !member.GetReady():
		worsen(rollout.Unhealthy, orElse(member.GetMessage(), "the workload is not ready"))
	}
	for _, check := range report.GetChecks() {
		if !counted(check) {
			continue
		}
		switch check.GetHealth() {
		case controlv1.Health_HEALTH_HEALTHY:
		case controlv1.Health_HEALTH_UNHEALTHY:
			worsen(rollout.Unhealthy, "check "+check.GetName()+": "+check.GetMessage())
		default:
			worsen(rollout.Unknown, "check "+check.GetName()+" has no result yet")
		}
	}
	return health, reason
}

// livenessOf treats a value of a newer agent as no answer: it proves nothing here.
func livenessOf(member *controlv1.MemberView) rollout.Liveness {
	switch member.GetLiveness() {
	case controlv1.Liveness_LIVENESS_ALIVE:
		return rollout.LivenessAlive
	case controlv1.Liveness_LIVENESS_REFUSED:
		return rollout.LivenessRefused
	case controlv1.Liveness_LIVENESS_UNSPECIFIED:
	}
	return rollout.LivenessUnknown
}

func roleOf(report *controlv1.Report) rollout.Role {
	if !report.GetMemberKnown() {
		return rollout.RoleUnknown
	}
	switch report.GetMember().GetRole() {
	case controlv1.Role_ROLE_LEADER:
		return rollout.RoleLeader
	case controlv1.Role_ROLE_FOLLOWER:
		return rollout.RoleFollower
	case controlv1.Role_ROLE_LEARNER:
		return rollout.RoleLearner
	case controlv1.Role_ROLE_NONE:
		return rollout.RoleNone
	case controlv1.Role_ROLE_UNSPECIFIED, controlv1.Role_ROLE_UNKNOWN:
	}
	return rollout.RoleUnknown
}

var verbs = map[controlv1.Verb]rollout.Verb{
	controlv1.Verb_VERB_DRAIN:           rollout.VerbDrain,
	controlv1.Verb_VERB_CANCEL_DRAIN:    rollout.VerbCancelDrain,
	controlv1.Verb_VERB_POST_LAUNCH:     rollout.VerbPostLaunch,
	controlv1.Verb_VERB_RESTART_SERVICE: rollout.VerbRestartService,
}

var states = map[controlv1.StepState]rollout.StepState{
	controlv1.StepState_STEP_STATE_RUNNING: rollout.StepRunning,
	controlv1.StepState_STEP_STATE_DONE:    rollout.StepDone,
	controlv1.StepState_STEP_STATE_ABORTED: rollout.StepAborted,
	controlv1.StepState_STEP_STATE_HELD:    rollout.StepHeld,
	controlv1.StepState_STEP_STATE_FAILED:  rollout.StepFailed,
}

func timeOf(report *controlv1.Report) (t time.Time) {
	if report.GetBootAt() != nil {
		t = report.GetBootAt().AsTime()
	}
	return t
}

func orElse(text, otherwise string) string {
	if text != "" {
		return text
	}
	return otherwise
}
