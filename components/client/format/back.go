package format

import (
	"fmt"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/core/operation"
)

// Way is the way of a group's slots, as Arrow: to the target, or back from it in a rollback.
func Way(v client.View) string {
	if r := v.Plan.Rollout; r != nil && r.Goal() != r.To {
		return Arrow(r.To, r.Goal())
	}
	return Arrow(v.Status.Stable, v.Status.Target)
}

// Reason is the reason of a rollout's state. It adds the rollback that the state does not show any more: the rollout was
// retried since, or a newer spec replaced it on the way back.
func Reason(r operation.Rollout) string {
	b := r.Back
	if b == nil || !b.Over && r.State != operation.SupersededState {
		return r.Reason
	}
	text := fmt.Sprintf("it rolled back to %s from %s on (%s)", Short(b.Revision), b.Since.UTC().Format(time.RFC3339), OneLine(strings.TrimPrefix(b.Verdict.Slot+": "+b.Verdict.Reason, ": ")))
	if b.Over {
		text += ", and was retried"
	}
	return strings.TrimPrefix(r.Reason+"; "+text, "; ")
}
