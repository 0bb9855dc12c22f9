package tokens

import "testing"

func TestSlotOfAPolicysName(t *testing.T) {
	for name, want := range map[string]string{
		"cadre-agent-pg-1": "pg-1", "cadre-workload-pg-1-0123456789ab": "pg-1", "cadre-agent-my-db-10-0123456789ab": "my-db-10",
		"cadre-agent-pg": "pg", "cadre-operator": "", "cadre-coordinator": "", "global-management": "",
	} {
		if got, ok := slotOf(name); got != want || ok != (want != "") {
			t.Errorf("%s: %q %v", name, got, ok)
		}
	}
}
