package truncate_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"cadre.dev/coordinator/internal/truncate"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/store"
)

// nasty are the worst texts of an agent, a platform or an operator: JSON needs up to six bytes for
// one.
func nasty() map[string]string {
	return map[string]string{
		"plain": strings.Repeat("a", 1<<20), "quotes": strings.Repeat("\"", 1<<20), "control": strings.Repeat("\x01", 1<<20),
		"markup": strings.Repeat("<", 1<<20), "not UTF-8": strings.Repeat("\xff<", 1<<19), "wide": strings.Repeat("ä€😀", 1<<18),
		"separators": strings.Repeat("\u2028", 1<<18), "delete": strings.Repeat("\x7f", 1<<20), "mixed": strings.Repeat("a\xff\"€", 1<<18),
	}
}

func TestTextFitsItsBoundInJSON(t *testing.T) {
	for name, text := range nasty() {
		for _, limit := range []int{8, 100, 1 << 10, 4 << 10} {
			got := truncate.Text(text, limit)
			encoded, err := json.Marshal(got)
			if err != nil || len(encoded)-2 > limit || !utf8.ValidString(got) || !strings.HasSuffix(got, "...") {
				t.Errorf("%s, %d: %d bytes of JSON, %v: %.40q", name, limit, len(encoded)-2, err, got)
			}
			if again := truncate.Text(got, limit); again != got {
				t.Errorf("%s, %d: clipped twice it is another text", name, limit)
			}
		}
	}
	for _, same := range []string{"", "fits", "ä€😀 \n", strings.Repeat("x", 8)} {
		if got := truncate.Text(same, 16); got != same {
			t.Errorf("%q became %q", same, got)
		}
	}
	if got := truncate.Text("a\xffb", 16); got != "a\uFFFDb" {
		t.Errorf("got %q", got)
	}
}

// TestEveryClippedRecordCanBeWritten: every input fits into its record.
func TestEveryClippedRecordCanBeWritten(t *testing.T) {
	for name, text := range nasty() {
		instance := group.InstanceStatus{
			Group: "pg", Slot: "pg-0", State: group.SlotState(text), Health: text, Reason: text, Role: text, PlatformStatus: text, Phase: text, LastRefusal: text,
		}
		status := group.Status{Group: "pg", Message: text}
		op := operation.Operation{ID: "x", Reason: text, Before: operation.Before{Quorum: text}, Call: operation.Call{Correlation: text, BootErrorBefore: text}, Transfer: &operation.Transfer{}}
		for range 1000 {
			instance.Holds = append(instance.Holds, group.Hold{Predicate: "quorum", Message: text})
			status.Conditions = append(status.Conditions, group.Condition{Type: "Available", Reason: text, Message: text})
			status.Instances = append(status.Instances, instance)
			op.Overridden = append(op.Overridden, operation.Overridden{Hold: "max_unavailable", By: text, Reason: text})
			op.Transfer.Candidates = append(op.Transfer.Candidates, strings.Repeat("s", 63))
		}
		_, errInstance := store.Put(store.SlotStatusKey("pg", "pg-0"), truncate.Instance(instance), 0)
		_, errStatus := store.Put(store.GroupStatusKey("pg"), truncate.Status(status), 0)
		_, errOperation := store.Put(store.OperationKey("x"), truncate.Operation(op), 0)
		_, errRollout := store.Put(store.RolloutKey("x"), truncate.Rollout(operation.Rollout{ID: "x", Reason: text}), 0)
		for what, err := range map[string]error{"instance": errInstance, "status": errStatus, "operation": errOperation, "rollout": errRollout} {
			if err != nil {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
	}
}
