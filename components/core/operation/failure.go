package operation

import (
	"strings"
	"unicode"
)

// Cause says why an Operation was called off or failed.
type Cause string

const (
	// CauseHook: a hook answered ABANDON, or the agent could not drain (R80).
	CauseHook Cause = "hook"
	// CauseDrainDeadline: the drain did not end in time.
	CauseDrainDeadline Cause = "drain_deadline"
	// CauseUnsafe: the precommit check never became safe (R50).
	CauseUnsafe Cause = "unsafe"
	// CausePrecondition: the platform would refuse the call, or did not answer whether it would (R74).
	CausePrecondition Cause = "precondition"
	// CauseUnwanted: the spec changed before any call (R82, R105).
	CauseUnwanted Cause = "unwanted"
	// CausePaused: an operator paused before any call (R92).
	CausePaused Cause = "paused"
	// CauseRefused: the platform refused the call for certain.
	CauseRefused Cause = "refused"
	// CauseBootError: the platform reports that the CVM cannot boot (R89).
	CauseBootError Cause = "boot_error"
	// CauseTask: the platform accepted the call, and its record says that the task failed.
	CauseTask Cause = "platform_task_failed"
	// CauseReplaced: the platform shows another CVM in place of the named CVM (R63).
	CauseReplaced Cause = "replaced"
	// CausePostLaunch: a POST_LAUNCH hook answered ABANDON.
	CausePostLaunch Cause = "post_launch"
	// CauseService: the agent could not restart the service.
	CauseService Cause = "service"
	// CauseDeadline: the Slot was not available before the healthy deadline (R87).
	CauseDeadline Cause = "healthy_deadline"
	// CauseVanished: the platform no longer lists the named CVM.
	CauseVanished Cause = "vanished"
	// CauseResolved: an operator recorded the outcome.
	CauseResolved Cause = "resolved"
	// CauseProgress, of a Verdict: no Slot arrived in time (R88).
	CauseProgress Cause = "progress_deadline"
	// CauseBake, of a Verdict: a Slot that had arrived failed while it baked (R91).
	CauseBake Cause = "bake"
	// CauseUndecided, of a Verdict: the effect of a call stayed unknown (R66).
	CauseUndecided Cause = "platform_result_unknown"
)

// Failure is the reason of an aborted or failed Operation, as values: no code reads it from Operation.Reason.
type Failure struct {
	// Cause says why the Operation was called off or failed, for counting (R80, R90). For a Drain at rest, Cause says
	// why its drain failed.
	Cause Cause `json:"cause,omitempty"`
	// Refused is the code of the newest refusal of a Boot since the last call, when the step waited for a Boot in vain.
	// It is empty if no Boot was refused.
	Refused string `json:"refused,omitempty"`
	// Own: the refused Boot provably ran on the Slot's own CVM. Otherwise its origin is unknown.
	Own bool `json:"own,omitempty"`
	// Signature of a boot error is the same for all CVMs with the same error. Of a step that starts its CVM again as it
	// was, Signature is the whole reason of the failure.
	Signature string `json:"signature,omitempty"`
	// Arrived: the Boot at the end had proved To anyway.
	Arrived bool `json:"arrived,omitempty"`
}

// of returns f with the refusal r of the awaited Boot; nil: no Boot was refused.
func (f Failure) of(r *RefusalView) Failure {
	if r != nil {
		f.Refused, f.Own = r.Code, r.Proven
	}
	return f
}

// maxSignature bounds the text of a signature.
const maxSignature = 120

// Signature removes from text the parts that differ between two CVMs: numbers and names with digits.
func Signature(text string) string {
	words := strings.Fields(text)
	for i, word := range words {
		if strings.ContainsFunc(word, unicode.IsDigit) {
			words[i] = "#"
		}
	}
	text = strings.Join(words, " ")
	for n := min(len(text), maxSignature); ; n-- {
		if n == len(text) || n == 0 || text[n]&0xC0 != 0x80 {
			return text[:n]
		}
	}
}
