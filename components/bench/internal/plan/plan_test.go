package plan

import (
	"testing"

	"cadre.dev/core/group"
)

func TestMeasureTakesTimeAndMemory(t *testing.T) {
	if c := measure(10, group.WorkloadNone, 0); c.ms <= 0 || c.mb <= 0 {
		t.Errorf("one decision costs %+v", c)
	}
}
