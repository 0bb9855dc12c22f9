package cloud

import (
	"slices"
	"time"
)

// Task is the record of one operation of a CVM, which stays when the operation is over.
type Task struct {
	CorrelationID string    `json:"correlation_id"`
	Operation     string    `json:"operation"`
	Target        Status    `json:"target"`
	ComposeHash   string    `json:"compose_hash"`
	StartedAt     time.Time `json:"started_at"`
	// EndedAt is zero while it is in progress; Error is why it failed.
	EndedAt time.Time `json:"ended_at"`
	Error   string    `json:"error,omitempty"`
}

// maxTasks is how many are kept of a CVM.
const maxTasks = 100

// noteTask records v's new task; called under the lock.
func (v *CVM) noteTask() {
	p := v.Progress
	v.Tasks = append(v.Tasks, Task{CorrelationID: p.CorrelationID, Operation: p.Operation, Target: p.Target, ComposeHash: v.ComposeHash, StartedAt: p.StartedAt})
	if over := len(v.Tasks) - maxTasks; over > 0 {
		v.Tasks = slices.Delete(v.Tasks, 0, over)
	}
}

// endTask records how the task ended that v had in progress; called under the lock.
func (v *CVM) endTask(end Status) {
	for i := range v.Tasks {
		t := &v.Tasks[i]
		if v.Progress == nil || t.CorrelationID != v.Progress.CorrelationID {
			continue
		}
		t.EndedAt = time.Now().UTC()
		if end != t.Target {
			t.Error = v.BootError
			if t.Error == "" {
				t.Error = "the CVM is " + string(end)
			}
		}
	}
}

// Tasks are the records of a CVM, newest first.
func (c *Cloud) Tasks(ref string) ([]Task, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.find(ref)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(v.Tasks)
	slices.Reverse(out)
	return out, nil
}
