package reports

import (
	"testing"

	"cadre.dev/core/rollout"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// Another incarnation under the same name is a change: an order names the incarnation.
func TestAnotherIncarnationIsRelevant(t *testing.T) {
	of := func(id string) *controlv1.Report {
		return &controlv1.Report{MemberKnown: true, Member: &controlv1.MemberView{Voters: []string{"etcd-0"}, MemberIds: map[string]string{"etcd-0": id}}}
	}
	if relevant(of("a1"), of("a1")) || !relevant(of("a1"), of("b2")) {
		t.Error("the same report is news, or another member is none")
	}
	if got := (Received{Report: of("a1")}).Observed().MemberIDs["etcd-0"]; got != "a1" {
		t.Errorf("the planner hears of %q", got)
	}
}

// A change of the followers is relevant: a silent follower is not healed.
func TestTheFollowersAreRelevant(t *testing.T) {
	of := func(slots ...string) *controlv1.Report {
		return &controlv1.Report{MemberKnown: true, Member: &controlv1.MemberView{Followers: slots}}
	}
	if relevant(of("pg-1"), of("pg-1")) || !relevant(of("pg-1"), of()) {
		t.Error("the same report is news, or a lost follower is none")
	}
	if got := (Received{Report: of("pg-1")}).Observed().Followers; len(got) != 1 || got[0] != "pg-1" {
		t.Errorf("the planner hears of %q", got)
	}
}

// A driver that cannot observe the member gives the reason: the plan shows it, and takes it for no proof.
func TestTheReasonOfAMemberThatIsNotKnownIsShown(t *testing.T) {
	const reason = "no adapter listens at 127.0.0.1:9900"
	for message, want := range map[string]string{reason: reason, "": "the workload driver has not answered yet"} {
		got := (Received{Report: &controlv1.Report{Member: &controlv1.MemberView{
			Role: controlv1.Role_ROLE_UNKNOWN, Message: message, MayDisruptReason: message,
		}}}).Observed()
		if got.Health != rollout.Unknown || got.HealthReason != want || got.MemberKnown || got.Message != message || got.MayDisruptReason != message {
			t.Errorf("%q: %+v", message, got)
		}
	}
}
