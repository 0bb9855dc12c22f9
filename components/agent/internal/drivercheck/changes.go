package drivercheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/core/adapter"
	"cadre.dev/core/group"
)

// drains are the checks of a drain and its end.
func drains() []check {
	skip := func(s *suite) string {
		if !s.Drain {
			return "takes the member out of service for a moment: give -drain"
		}
		return ""
	}
	return []check{{
		name:     "drain and undrain may be repeated",
		expected: "success of each of two drains and of two undrains, and then a member as before",
		fix:      "answer success when the member is drained, or in service, already; 409 while the workload is busy with it",
		skip:     skip,
		run: func(ctx context.Context, s *suite) (string, error) {
			for i := range 2 {
				if err := s.Driver.Drain(ctx); err != nil {
					return "", fmt.Errorf("drain %d: %w", i+1, err)
				}
			}
			for i := range 2 {
				if err := s.Driver.CancelDrain(ctx); err != nil {
					return "", fmt.Errorf("undrain %d: %w", i+1, err)
				}
			}
			return "", s.await(ctx, "a member that is as ready as before the drain", func(v driver.View) bool { return v.Ready == s.first.Ready && v.Role != driver.RoleUnknown })
		},
	}}
}

// changes are the checks of the workload's set.
func changes() []check {
	skip := func(s *suite) string {
		_, able := s.Driver.(driver.Changer)
		switch {
		case s.Set == group.SetNone, !able:
			return "Cadre does not change this workload's set"
		case s.Change == "":
			return "changes the set: give -change SLOT, a slot that the set does not list"
		case s.first.Role != driver.RoleLeader:
			return "the leader changes the set, and this member is not it"
		}
		return ""
	}
	return []check{{
		name:     "removal of an absent member succeeds",
		expected: "success, and no change",
		fix:      "answer success when the set does not list the slot",
		skip:     skip,
		run: func(ctx context.Context, s *suite) (string, error) {
			for range 2 {
				if err := s.change(ctx, group.SetChange{Do: group.SetRemove, Slot: s.Change}); err != nil {
					return "", err
				}
			}
			return "", nil
		},
	}, {
		name:     "another incarnation stays",
		expected: "a removal with the id of an earlier member leaves the present member of that name in the set",
		fix:      "compare the field member with the workload's own id before you remove, and answer success without a change where they differ",
		skip: func(s *suite) string {
			if why := skip(s); why != "" {
				return why
			}
			if s.follower() == "" {
				return "no other voter with an id is listed in member_ids"
			}
			return ""
		},
		run: func(ctx context.Context, s *suite) (string, error) {
			slot := s.follower()
			err := s.change(ctx, group.SetChange{Do: group.SetRemove, Slot: slot, Member: "cadre-check-no-such-id"})
			if err != nil && !errors.Is(err, driver.ErrUnsafe) {
				return "", err
			}
			return slot + " stays", s.now(ctx, slot+" in the set", func(v driver.View) bool { return slices.Contains(v.Voters, slot) })
		},
	}, {
		name:     "a member is added and removed",
		expected: "each of two additions succeeds and lists the slot without a vote; so does each of two removals, which take it off the list",
		fix:      "answer success when the slot is listed already; return once the change is committed; list a new member under learners",
		skip: func(s *suite) string {
			if why := skip(s); why != "" {
				return why
			}
			if s.Wire != nil && s.Set != group.SetAdds {
				return "set is not adds: members list themselves"
			}
			return ""
		},
		run: func(ctx context.Context, s *suite) (string, error) {
			for range 2 {
				if err := s.change(ctx, group.SetChange{Do: group.SetAdd, Slot: s.Change}); err != nil {
					return "", fmt.Errorf("add: %w", err)
				}
			}
			if err := s.await(ctx, s.Change+" among the learners", func(v driver.View) bool { return slices.Contains(v.Learners, s.Change) }); err != nil {
				return "", err
			}
			if err := driver.Change(ctx, s.Driver, group.SetChange{Do: group.SetPromote, Slot: s.Change}); err == nil {
				return "", errors.New("a member that never started got a vote")
			}
			for range 2 {
				if err := s.change(ctx, group.SetChange{Do: group.SetRemove, Slot: s.Change}); err != nil {
					return "", fmt.Errorf("remove: %w", err)
				}
			}
			return "", s.await(ctx, "a set without "+s.Change, func(v driver.View) bool { return v.MemberIDs[s.Change] == "" && !slices.Contains(v.Learners, s.Change) })
		},
	}}
}

// follower is another voter whose id is known.
func (s *suite) follower() string {
	for _, slot := range s.first.Voters {
		if slot != s.Self && s.first.MemberIDs[slot] != "" {
			return slot
		}
	}
	return ""
}

// change makes a change, once a busy workload lets it.
func (s *suite) change(ctx context.Context, c group.SetChange) error {
	var last error
	err := s.await(ctx, "an end of the workload's other change", func(driver.View) bool {
		last = driver.Change(ctx, s.Driver, c)
		return !errors.Is(last, driver.ErrBusy)
	})
	return errors.Join(last, err)
}

// transfers are the checks of the hand-over, which changes the role of the member.
func transfers() []check {
	skip := func(s *suite) string {
		s.peers = s.candidates()
		switch {
		case s.Stops:
			return "hand_over is stop: no transfer is asked"
		case s.first.Role == driver.RoleNone:
			return "the workload has no roles"
		case !s.Transfer:
			return "moves leadership: give -transfer"
		case s.first.Role != driver.RoleLeader:
			return fmt.Sprintf("this member does not lead: run it at %s", s.first.Leader)
		case len(s.peers) == 0:
			return "no candidate is known: give -candidates"
		}
		return ""
	}
	wired := func(s *suite) string {
		if s.Wire == nil {
			return "is no adapter"
		}
		return skip(s)
	}
	return []check{{
		name:     "a candidate that does not exist is refused",
		expected: "422 (exit code 65), and the leader stays",
		fix:      "choose among the candidates alone, and answer 422 if none of them qualifies",
		skip:     skip,
		run: func(ctx context.Context, s *suite) (string, error) {
			_, err := s.Driver.Transfer(ctx, driver.TransferRequest{ExpectedLeader: s.Self, Candidates: []string{s.absent()}})
			if !errors.Is(err, driver.ErrUnsafe) {
				return "", fmt.Errorf("the transfer to %s alone: want a refusal, got %v", s.absent(), err) //nolint:errorlint // nil too
			}
			return "", s.now(ctx, "the same leader", func(v driver.View) bool { return v.Leader == s.Self })
		},
	}, {
		name:     "another expected leader is refused",
		expected: "422 (exit code 65), and the leader stays",
		fix:      "compare expected_leader with this member before you move leadership",
		skip:     wired,
		run: func(ctx context.Context, s *suite) (string, error) {
			said, err := s.transfer(ctx, s.peers[0])
			if err != nil || said.class != unsafeClass {
				return "", fmt.Errorf("expected_leader %s at %s: want a refusal, got %s, %v", s.peers[0], s.Self, said, err) //nolint:errorlint // nil too
			}
			return "", s.now(ctx, "the same leader", func(v driver.View) bool { return v.Leader == s.Self })
		},
	}, {
		name:     "leadership moves and is confirmed",
		expected: "the hand-over to one of the candidates, which this member then sees leading in a later epoch",
		fix:      "answer once the new leader is there; let epoch grow with each change of the leader, or leave it out",
		skip:     skip,
		run: func(ctx context.Context, s *suite) (string, error) {
			moved, err := s.Driver.Transfer(ctx, driver.TransferRequest{ExpectedLeader: s.Self, Candidates: s.peers})
			switch {
			case err != nil:
				return "", err
			case !moved.Moved || !slices.Contains(s.peers, moved.Leader):
				return "", fmt.Errorf("moved %t to %q, want one of %q", moved.Moved, moved.Leader, s.peers)
			}
			return fmt.Sprintf("to %s, epoch %d", moved.Leader, moved.Epoch), s.await(ctx, "a view that names "+moved.Leader, func(v driver.View) bool {
				return v.Role != driver.RoleLeader && v.Leader == moved.Leader && (s.first.Epoch == 0 || v.Epoch > s.first.Epoch)
			})
		},
	}, {
		name:     "a repeated hand-over is success",
		expected: "success with moved = false and the present leader, and no second move",
		fix:      "answer 200 with moved = false when this member does not lead",
		skip:     skip,
		run: func(ctx context.Context, s *suite) (string, error) {
			again, err := s.Driver.Transfer(ctx, driver.TransferRequest{ExpectedLeader: s.Self, Candidates: s.peers})
			if err != nil || again.Moved || again.Leader == "" || again.Leader == s.Self {
				return "", fmt.Errorf("moved %t, leader %q, %v", again.Moved, again.Leader, err) //nolint:errorlint // nil too
			}
			if s.Wire == nil {
				return "", nil
			}
			said, err := s.transfer(ctx, s.Self)
			var answer adapter.Transferred
			if err == nil && said.class == okClass {
				err = json.Unmarshal(said.text, &answer)
			}
			if err != nil || said.class != okClass || answer.Moved || answer.Leader != again.Leader {
				return "", fmt.Errorf("asked directly: %s, %v", said, err) //nolint:errorlint // nil too
			}
			return "", nil
		},
	}}
}

// transfer asks the adapter directly.
func (s *suite) transfer(ctx context.Context, expected string) (reply, error) {
	body, err := json.Marshal(adapter.TransferRequest{ExpectedLeader: expected, Candidates: s.peers})
	if err != nil {
		return reply{}, err
	}
	return s.Wire.ask(ctx, adapter.CommandTransfer, body)
}

// candidates are the given ones, or the other members that the answer names.
func (s *suite) candidates() []string {
	if len(s.Candidates) > 0 {
		return s.Candidates
	}
	names := s.first.Voters
	if len(names) == 0 {
		names = s.first.Followers
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == s.Self })
}
