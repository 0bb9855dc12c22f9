package rollout_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// expect checks an expectation of a story.
func (s *story) expect(text string) error {
	for _, e := range expectations() {
		if m := expressions[e.line].FindStringSubmatch(text); m != nil {
			return e.does(s, m[1:])
		}
	}
	return errors.New("nobody knows what that means; story_expect_test.go lists what may be expected")
}

// expectations lists every expectation. Begins and calls are those of the block; all others concern the present state.
func expectations() []event {
	return slices.Concat(workExpectations(), stateExpectations(), placeExpectations(), versionExpectations())
}

func workExpectations() []event {
	return []event{
		{"nothing begins", func(s *story, _ []string) error { return want(strings.Join(s.k.begins, ", "), "") }},
		{"nothing begins for SLOT", func(s *story, arg []string) error { return want(s.count(s.k.begins, arg[0]), 0) }},
		{"begins nothing but REST", func(s *story, arg []string) error {
			for _, b := range s.k.begins {
				if !slices.Contains(strings.Split(arg[0], ", "), b) {
					return fmt.Errorf("begins %s", b)
				}
			}
			return nil
		}},
		{"begins REST", func(s *story, arg []string) error { return want(strings.Join(s.k.begins, ", "), arg[0]) }},
		{"at most N begins? for SLOT", func(s *story, arg []string) error { return most(s.count(s.k.begins, arg[1]), arg[0]) }},
		{"no call", func(s *story, _ []string) error { return want(strings.Join(s.k.calls, ", "), "") }},
		{"no call for SLOT", func(s *story, arg []string) error { return want(s.count(s.k.calls, arg[0]), 0) }},
		{"at most N calls? for SLOT", func(s *story, arg []string) error { return most(s.count(s.k.calls, arg[1]), arg[0]) }},
		{"N calls? for SLOT", func(s *story, arg []string) error { return want(strconv.Itoa(s.count(s.k.calls, arg[1])), arg[0]) }},
		{"calls REST", func(s *story, arg []string) error { return want(strings.Join(s.k.calls, ", "), arg[0]) }},
		{"at most N commits", func(s *story, arg []string) error { return most(s.c.store.commits-s.commits, arg[0]) }},
		{"N transfers?", func(s *story, arg []string) error { return want(strconv.Itoa(s.w.transfers), arg[0]) }},
	}
}

func stateExpectations() []event {
	return []event{
		{"rollout WORD", func(s *story, arg []string) error { return want(string(s.state()), arg[0]) }},
		{"N available", func(s *story, arg []string) error { return want(strconv.Itoa(s.c.plan.Status.Available), arg[0]) }},
		{"N updated", func(s *story, arg []string) error { return want(strconv.Itoa(s.c.plan.Status.Updated), arg[0]) }},
		{"N CVMs", func(s *story, arg []string) error { return want(strconv.Itoa(len(s.w.slots())), arg[0]) }},
		{"SLOT runs WORD", func(s *story, arg []string) error {
			c := s.w.of(arg[0])
			if c == nil {
				return errors.New("it has no CVM")
			}
			if revision := s.w.runs(c); revision != "" {
				return want(s.w.name(revision), arg[1])
			}
			return want(storyName(c.content), arg[1])
		}},
		{"SLOT has the color WORD", func(s *story, arg []string) error { return want(s.w.told[arg[0]]["COLOR"], arg[1]) }},
		{"env of SLOT is WORD", func(s *story, arg []string) error { return want(s.instance(arg[0]).OwnEnv, arg[1]) }},
		{"SLOT has the size WORD", func(s *story, arg []string) error { return want(s.w.of(arg[0]).content.InstanceType, arg[1]) }},
		{"size of SLOT is WORD", func(s *story, arg []string) error { return want(s.instance(arg[0]).OwnInstanceType, arg[1]) }},
		{"SLOT is held by REST", func(s *story, arg []string) error {
			a, ok := s.action(arg[0])
			if !ok {
				return errors.New("there is no action for it")
			}
			for _, predicate := range strings.Split(arg[1], ", ") {
				if !slices.Contains(s.holds(arg[0]), predicate) {
					return fmt.Errorf("%s of it is held by [%s]", a.Kind, strings.Join(s.holds(arg[0]), ", "))
				}
			}
			return nil
		}},
		{"SLOT is not held by WORD", func(s *story, arg []string) error {
			if slices.Contains(s.holds(arg[0]), arg[1]) {
				return errors.New("it is")
			}
			return nil
		}},
		{"no action for SLOT", func(s *story, arg []string) error {
			if a, ok := s.action(arg[0]); ok {
				return fmt.Errorf("there is %s", a.Kind)
			}
			return nil
		}},
		{"SLOT is not WORD", func(s *story, arg []string) error {
			if s.instance(arg[0]).State == group.SlotState(arg[1]) {
				return errors.New("it is")
			}
			return nil
		}},
		{"SLOT is WORD", func(s *story, arg []string) error { return want(string(s.instance(arg[0]).State), arg[1]) }},
		{"SLOT leads", func(s *story, arg []string) error { return want(s.w.leader, arg[0]) }},
		{"no member leads", func(s *story, _ []string) error { return want(s.w.leader, "") }},
		{"the last operation of SLOT is WORD", func(s *story, arg []string) error { return want(string(s.last(arg[0]).Phase), arg[1]) }},
		{"the last operation of SLOT ended because WORD", func(s *story, arg []string) error { return want(string(s.last(arg[0]).Failure.Cause), arg[1]) }},
		{"no request waits", func(s *story, _ []string) error { return want(len(s.c.store.requests), 0) }},
		{"the group is gone", func(s *story, _ []string) error { return want(s.c.gone, true) }},
		{"no open operation", func(s *story, _ []string) error {
			for _, op := range s.c.store.operations {
				if !op.Phase.Ended() {
					return fmt.Errorf("%s is %s: %s", op.ID, op.Phase, s.named(op.Reason))
				}
			}
			return nil
		}},
		{"at most N records of SLOT", func(s *story, arg []string) error {
			n := 0
			for _, op := range s.c.store.operations {
				if op.Slot == arg[1] {
					n++
				}
			}
			return most(n, arg[0])
		}},
		{"it says REST", func(s *story, arg []string) error {
			if text := s.named(s.c.plan.Message); !strings.Contains(text, arg[0]) {
				return fmt.Errorf("it says %q", text)
			}
			return nil
		}},
		{"SLOT says REST", func(s *story, arg []string) error {
			if text := s.named(s.instance(arg[0]).Reason); !strings.Contains(text, arg[1]) {
				return fmt.Errorf("it says %q", text)
			}
			return nil
		}},
		{"condition WORD is (true|false)", func(s *story, arg []string) error {
			for _, c := range s.c.plan.Status.Conditions {
				if c.Type == arg[0] {
					return want(strconv.FormatBool(c.Status), arg[1])
				}
			}
			return errors.New("there is no such condition")
		}},
	}
}

func want[T comparable](got, wanted T) error {
	if got != wanted {
		return fmt.Errorf("got %v", got)
	}
	return nil
}

func most(got int, limit string) error {
	if n, err := strconv.Atoi(limit); err != nil || got > n {
		return fmt.Errorf("got %d", got)
	}
	return nil
}

// count returns how many of the texts concern a Slot.
func (s *story) count(texts []string, slot string) int {
	n := 0
	for _, text := range texts {
		if strings.HasSuffix(text, " "+slot) {
			n++
		}
	}
	return n
}

func (s *story) holds(slot string) []string {
	a, _ := s.action(slot)
	var out []string
	for _, h := range a.Holds {
		out = append(out, h.Predicate)
	}
	return out
}

// last is the newest Operation of a Slot.
func (s *story) last(slot string) operation.Operation {
	if of := s.c.of(slot); len(of) > 0 {
		return of[0]
	}
	return operation.Operation{}
}
