package operate

import (
	"testing"

	"cadre.dev/core/operation"
	"cadre.dev/platform"
)

// A task counts as begun by a call only where no other task can be.
func TestTheTaskOfACall(t *testing.T) {
	done := func(id, kind, hash string) platform.Task {
		return platform.Task{Correlation: id, Kind: kind, State: platform.TaskDone, ComposeHash: hash}
	}
	update := operation.Operation{Kind: operation.Update, Call: operation.Call{Part: operation.PartCompose, HashWanted: "aa", Correlation: "op-0"}}
	restart := operation.Operation{Kind: operation.Restart, Call: operation.Call{Part: operation.PartRestart}}
	resize := operation.Operation{Kind: operation.Update, Call: operation.Call{Part: operation.PartResources}}
	for name, c := range map[string]struct {
		op        operation.Operation
		undecided bool
		tasks     []platform.Task
		want      string
	}{
		"none":                       {update, true, nil, ""},
		"its own":                    {update, true, []platform.Task{done("op-1", "compose_update", "aa")}, "op-1"},
		"the one before as well":     {update, true, []platform.Task{done("op-1", "compose_update", "aa"), done("op-0", "resize", "")}, "op-1"},
		"another content":            {update, true, []platform.Task{done("op-1", "compose_update", "bb")}, ""},
		"a content that is not told": {update, true, []platform.Task{done("op-1", "compose_update", "")}, ""},
		"a restart by another hand":  {update, true, []platform.Task{done("op-1", "restart", "aa")}, ""},
		"two that may be":            {update, true, []platform.Task{done("op-2", "env_update", "aa"), done("op-1", "compose_update", "aa")}, ""},
		"a state that is not known":  {restart, true, []platform.Task{{Correlation: "op-1", Kind: "restart", State: "odd"}}, ""},
		"a restart":                  {restart, true, []platform.Task{done("op-1", "power_cycle", "aa")}, "op-1"},
		"an update where a restart was asked for": {restart, true, []platform.Task{done("op-1", "compose_update", "aa")}, ""},
		"a size":                                   {resize, true, []platform.Task{done("op-1", "update", "aa")}, "op-1"},
		"accepted, by its id":                      {update, false, []platform.Task{done("op-1", "compose_update", "aa"), done("op-0", "odd", "")}, "op-0"},
		"accepted without an id, by what it is":    {restart, false, []platform.Task{done("op-1", "restart", "aa")}, "op-1"},
		"accepted, and not among those since then": {update, false, []platform.Task{done("op-1", "compose_update", "aa")}, ""},
	} {
		got := pick(c.op, c.undecided, c.tasks)
		if (got == nil) != (c.want == "") || got != nil && got.Correlation != c.want {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
	failed := pick(restart, true, []platform.Task{{Correlation: "op-1", Kind: "restart", State: platform.TaskFailed, Error: "no room"}})
	if failed == nil || failed.Failed != "task op-1 (restart) failed: no room" || failed.InProgress {
		t.Errorf("a failed one: %+v", failed)
	}
}
