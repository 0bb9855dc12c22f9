package operate

import (
	"context"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/platform"
)

// taskPause is the shortest time between two reads of the platform's task records for one
// Operation.
const taskPause = 5 * time.Second

// taskLook is the result of the last read of the platform's task records.
type taskLook struct {
	at   time.Time
	call int
	task *operation.Task
}

// task is the platform's record of the task that op's last call began, where the platform keeps
// such records. It is read while the call's outcome is unknown, and while an accepted call may have
// had no effect.
func (o *Operator) task(ctx context.Context, op operation.Operation, now time.Time) *operation.Task {
	records, ok := o.cfg.Platform.(platform.Recorder)
	if !ok || !op.Kind.InPlace() || op.Way.Refreshes() || op.Way.Service != "" || op.CVM.VMUUID == "" || op.Call.IssuedAt.IsZero() {
		return nil
	}
	undecided := op.Phase == operation.Acting && op.Call.Undecided()
	awaited := (op.Phase == operation.Acting || op.Phase == operation.Booting) && op.Call.Outcome == operation.OutcomeDone
	if !undecided && !awaited {
		return nil
	}
	o.mu.Lock()
	last := o.looks[op.ID]
	o.mu.Unlock()
	if last.call == op.Call.Number && now.Sub(last.at) < taskPause {
		return last.task
	}
	ctx, cancel := context.WithTimeout(ctx, defaultProvisionTime)
	defer cancel()
	tasks, err := records.Tasks(ctx, op.CVM.VMUUID, max(0, now.Sub(op.Call.IssuedAt)))
	if err != nil {
		o.cfg.Log.Debug("the platform's records of tasks are not known", "operation", op.ID, "error", err)
		return nil
	}
	look := taskLook{at: now, call: op.Call.Number, task: pick(op, undecided, tasks)}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.looks[op.ID] = look
	return look.task
}

// pick is the only task that op's call can have begun; nil for none or several.
func pick(op operation.Operation, undecided bool, tasks []platform.Task) *operation.Task {
	var found *operation.Task
	for _, t := range tasks {
		own := t.Correlation == op.Call.Correlation
		if undecided || op.Call.Correlation == "" {
			own = !own && begins(op, t) // an undecided call has the Correlation of the call before it
		}
		if !own {
			continue
		}
		if t.State != platform.TaskInProgress && t.State != platform.TaskDone && t.State != platform.TaskFailed || found != nil {
			return nil
		}
		found = &operation.Task{Correlation: t.Correlation, InProgress: t.State == platform.TaskInProgress}
		if t.State == platform.TaskFailed {
			found.Failed = strings.TrimSuffix("task "+t.Correlation+" ("+t.Kind+") failed: "+t.Error, ": ")
		}
	}
	return found
}

// begins reports whether a call for op's Part begins such a task. The public description of the API
// names few kinds, so a restart is a task of no other kind.
func begins(op operation.Operation, t platform.Task) bool {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(t.Kind, word) })
	}
	switch op.Call.Part {
	case operation.PartCompose:
		return has("compose", "env", "update") && t.ComposeHash == op.Call.HashWanted && t.ComposeHash != ""
	case operation.PartResources, operation.PartOSImage:
		return has("resize", "resource", "image", "update") && !has("compose", "env")
	case operation.PartRestart:
		return !has("compose", "env", "resize", "resource", "image", "update", "create", "delete")
	case operation.PartCreate, operation.PartDelete, operation.PartStop, "":
	}
	return false
}
