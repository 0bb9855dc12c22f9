package platform

import (
	"context"
	"time"
)

// Recorder is a Platform that keeps records of the tasks which its calls began. They settle the
// effect of a call whose answer was lost, and the reason why an accepted one had none.
type Recorder interface {
	// Tasks are the operations of one CVM that began since then, by the platform's own clock,
	// newest first. A platform without such records gives none.
	Tasks(ctx context.Context, vmUUID string, since time.Duration) ([]Task, error)
}

// TaskState is how far a task is.
type TaskState string

// States of a task. Of another word of the platform nothing is concluded.
const (
	TaskInProgress TaskState = "in_progress"
	TaskDone       TaskState = "completed"
	TaskFailed     TaskState = "failed"
)

// Task is the platform's record of one change of a CVM. Never evidence.
type Task struct {
	// Correlation is the handle of Accepted.
	Correlation string
	// Kind is the platform's word for it, e.g. "compose_update".
	Kind  string
	State TaskState
	// Error is why it failed, in the platform's words.
	Error string
	// ComposeHash is the hash of the resulting content; empty: unknown.
	ComposeHash string
}
