package operation

import (
	"strings"
	"unicode"
)

// Cause says why an Operation was called off or failed.
type Cause string

const (
	// CauseHook: a hook said ABANDON, or the agent could not drain (R80).
	CauseHook Cause = "hook"
	// CauseDrainDeadline: the drain did not end in time.
	CauseDrainDeadline Cause = "drain_deadline"
	// CauseUnsafe: the second look before acting never became safe (R50).
	CauseUnsafe Cause = "unsafe"
	// CausePrecondition: the platform would refuse what the call leads to, or could not tell (R74).
	CausePrecondition Cause = "precondition"
	// CauseUnwanted: the spec moved on before anything was done (R82, R105).
	CauseUnwanted Cause = "unwanted"
	// CausePaused: an operator paused before anything was done (R92).
	CausePaused Cause = "paused"
	// CauseRefused: the platform refused the call for certain.
	CauseRefused Cause = "refused"
	// CauseBootError: the platform reports that the CVM cannot boot (R89).
	CauseBootError Cause = "boot_error"
	// CauseTask: the platform took the call, and its record says that the task failed.
	CauseTask Cause = "platform_task_failed"
	// CauseReplaced: another CVM stands where the named one was (R63).
	CauseReplaced Cause = "replaced"
	// CausePostLaunch: a POST_LAUNCH hook said ABANDON.
	CausePostLaunch Cause = "post_launch"
	// CauseService: the agent could not restart the service.
	CauseService Cause = "service"
	// CauseDeadline: not available before the healthy deadline (R87).
	CauseDeadline Cause = "healthy_deadline"
	// CauseVanished: the platform lists the named CVM no more.
	CauseVanished Cause = "vanished"
	// CauseResolved: an operator said how it ended.
	CauseResolved Cause = "resolved"
	// CauseProgress, of a Verdict: no Slot arrived in time (R88).
	CauseProgress Cause = "progress_deadline"
	// CauseUndecided, of a Verdict: the effect of a call could not be told (R66).
	CauseUndecided Cause = "platform_result_unknown"
)

// Failure is why an Operation ended without being done, as values: nothing reads it out of Operation.Reason.
type Failure struct {
	// Cause says why it was called off or failed, for counting (R80, R90), and of a Drain at
	// rest why what runs could not be drained.
	Cause Cause `json:"cause,omitempty"`
	// Refused is the code of the newest refusal of a Boot since the last call, where a Boot was waited for in
	// vain; "": none was refused.
	Refused string `json:"refused,omitempty"`
	// Own: the Boot that was refused was provably one of the Slot's own CVM. Otherwise it may be anybody's.
	Own bool `json:"own,omitempty"`
	// Signature of a boot error is the same for each CVM that has the same one.
	Signature string `json:"signature,omitempty"`
	// Arrived: the Boot that was there at the end had proved To all the same.
	Arrived bool `json:"arrived,omitempty"`
}

// of is the Failure with what r says of the Boot that is waited for; nil: none was refused.
func (f Failure) of(r *RefusalView) Failure {
	if r != nil {
		f.Refused, f.Own = r.Code, r.Proven
	}
	return f
}

// maxSignature bounds the text of a signature.
const maxSignature = 120

// Signature leaves what differs between two CVMs out of a text: numbers and names with digits.
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
