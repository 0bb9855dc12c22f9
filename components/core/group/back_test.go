package group

import "testing"

func TestR103_GoingBackTakesTheWholeRevisionAndNothingElse(t *testing.T) {
	old := goodSpec()
	old.Normalize()
	record := RevisionRecord{Digest: old.Revision(), Group: old.Name, Template: old.Template, AgentSpec: old.AgentSpec(), RestartToken: old.RestartToken}
	now := goodSpec()
	now.Template.Compose += "# two\n"
	now.RestartToken = "again"
	now.HealthChecks = append(now.HealthChecks, HealthCheck{Name: "more", TCP: &TCPCheck{Port: 80}})
	now.Replicas, now.Meta = 5, map[string]string{"tier": "other"}
	now.Normalize()
	back, err := now.Back(record)
	if err != nil || back.Revision() != old.Revision() || back.Replicas != 5 || back.Meta["tier"] != "other" || len(back.HealthChecks) != len(old.HealthChecks) {
		t.Errorf("%+v, %v", back, err)
	}
	record.Template.Env = map[string]string{"A": "b"}
	if _, err := now.Back(record); err == nil {
		t.Error("a record that is not what its digest names is gone back to")
	}
}
