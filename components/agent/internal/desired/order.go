package desired

import (
	"cadre.dev/agent/internal/lifecycle"
	"cadre.dev/agent/internal/report"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// Order converts o; nil: no order.
func Order(o *controlv1.OperationOrder) *lifecycle.Order {
	if o.GetOperationId() == "" {
		return nil
	}
	out := &lifecycle.Order{
		Key: lifecycle.Key{
			Operation: o.GetOperationId(), Verb: report.VerbFromProto(o.GetVerb()), Attempt: o.GetAttempt(),
		},
		ExpectedLeader: o.GetExpectedLeader(), Candidates: o.GetTransferCandidates(), Service: o.GetService(), WithoutHooks: o.GetWithoutHooks(),
	}
	if o.GetDeadline() != nil {
		out.Deadline = o.GetDeadline().AsTime()
	}
	if limit := o.GetLimit().AsDuration(); limit > 0 {
		out.Limit = limit
	}
	return out
}
