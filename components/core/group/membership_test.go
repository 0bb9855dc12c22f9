package group_test

import (
	"slices"
	"testing"

	"cadre.dev/core/group"
)

// An agent learns whether its member may found the set: a member on another disk must not.
func TestFoundersReachTheAgent(t *testing.T) {
	var founds, joins group.AgentConfig
	founds.Join(&group.Membership{Founders: []string{"kafka-0", "kafka-1"}})
	if founds.Membership == nil || !slices.Equal(founds.Membership.Founders, []string{"kafka-0", "kafka-1"}) || len(founds.MustUnderstand) > 0 {
		t.Errorf("a founder gets %+v, which older agents must not refuse: %v", founds.Membership, founds.MustUnderstand)
	}
	joins.Join(&group.Membership{Joins: true})
	if joins.Membership == nil || len(joins.Membership.Founders) > 0 {
		t.Errorf("a joining member gets %+v", joins.Membership)
	}
}
