package member

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/core/group"
)

// setRetry is between two tries of a change of the set, and after one until the coordinator
// saw it: a change that is made twice is made once.
const setRetry = time.Second

// SetChanger makes the ordered changes of the workload's set. All exported fields are required and
// are not changed. Safe for concurrent use.
type SetChanger struct {
	Watcher *Watcher
	// Config is the newest configuration; nil: there is none.
	Config *latestvalue.Value[*group.AgentConfig]
	// Connected reports that a coordinator is connected, Ended that this Boot lost its Slot.
	Connected, Ended func() bool
	Log              *slog.Logger

	fault latestvalue.Value[error]
}

// Fault is why the change that is due is not made; nil: none is due, or it is.
func (s *SetChanger) Fault() error {
	if err, _ := s.fault.Get(); err != nil {
		return fmt.Errorf("the workload's set is not changed: %w", err)
	}
	return nil
}

// Run makes the ordered change of the workload's set and repeats it until the order changes or ctx
// ends. Run acts only while the member leads its set and a coordinator is connected: an old order
// may be the opposite of the present one.
func (s *SetChanger) Run(ctx context.Context) error {
	var (
		failed error
		made   group.SetChange
	)
	for {
		_, seen := s.Config.Get()
		change := s.due()
		var again <-chan time.Time
		if change == nil {
			failed, made = nil, group.SetChange{}
		} else {
			failed = s.logResult(*change, s.make(ctx, *change, &made), failed)
			again = time.After(setRetry)
		}
		s.fault.Set(failed)
		select {
		case <-ctx.Done():
			return nil
		case <-s.Config.Changed(seen):
		case <-again:
		}
	}
}

func (s *SetChanger) due() *group.SetChange {
	config, _ := s.Config.Get()
	if config == nil || config.Membership == nil || s.Ended() {
		return nil
	}
	return config.Membership.Change
}

// make makes change, unless it is not this member's turn; made is the last change made, for the
// log.
func (s *SetChanger) make(ctx context.Context, change group.SetChange, made *group.SetChange) error {
	if !s.Connected() {
		return nil // a coordinator repeats the order once connected
	}
	if state := s.Watcher.State(); state.View.Role != driver.RoleLeader {
		return nil // the next leader gets the order
	}
	err := driver.Change(ctx, s.Watcher.Driver(), change)
	s.Watcher.Kick()
	if err == nil && *made != change {
		*made = change
		s.Log.Info("the set of the workload is changed", "do", change.Do, "slot", change.Slot)
	}
	return err
}

// logResult logs a new outcome, and returns the error for the report.
func (s *SetChanger) logResult(change group.SetChange, err, before error) error {
	if err == nil {
		return nil
	}
	failed := fmt.Errorf("%s %s: %w", change.Do, change.Slot, err)
	if before == nil || before.Error() != failed.Error() {
		s.Log.Warn("the set of the workload is not changed yet", "error", failed)
	}
	return failed
}
