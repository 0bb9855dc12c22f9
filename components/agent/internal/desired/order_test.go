package desired

import (
	"reflect"
	"testing"

	"cadre.dev/agent/internal/lifecycle"
	"cadre.dev/core/rollout"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// TestAnOrderArrivesWhole: every field of the leader's drain order reaches the executor.
func TestAnOrderArrivesWhole(t *testing.T) {
	got := Order(&controlv1.OperationOrder{
		OperationId: "op", Verb: controlv1.Verb_VERB_DRAIN, Attempt: 2, ExpectedLeader: "db-0", TransferCandidates: []string{"db-1"}, WithoutHooks: true,
	})
	want := &lifecycle.Order{
		Key: lifecycle.Key{Operation: "op", Verb: rollout.VerbDrain, Attempt: 2}, ExpectedLeader: "db-0", Candidates: []string{"db-1"}, WithoutHooks: true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if Order(&controlv1.OperationOrder{Verb: controlv1.Verb_VERB_DRAIN}) != nil {
		t.Error("an order of no Operation")
	}
}
