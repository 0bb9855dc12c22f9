package drivercheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"cadre.dev/agent/internal/driver"
	"cadre.dev/core/adapter"
)

// repeats and atOnce are how often a member is observed in turn and at the same time.
const repeats, atOnce = 5, 3

// looks are the checks that only read.
func looks() []check {
	return []check{{
		name:     "member answers",
		expected: "an answer of a running member, sound as a whole, in time",
		fix:      "start the member and its adapter, and correct each named field: the guide has the table of fields",
		run: func(ctx context.Context, s *suite) (string, error) {
			began := time.Now()
			v, err := s.observe(ctx)
			if err != nil {
				return "", err
			}
			s.first = v
			return fmt.Sprintf("%s, in %s", v.Role, time.Since(began).Round(time.Millisecond)), asMember(v).CheckOf(s.Self, s.Votes)
		},
	}, {
		name:     "member is alive and has a role",
		expected: "liveness alive, and a role: leader, follower, learner, or none for a workload without roles",
		fix:      "run the check at a member that is up; derive the role from the member itself, and use none only if no member ever leads",
		run: func(_ context.Context, s *suite) (string, error) {
			switch v := s.first; {
			case v.Liveness != driver.LivenessAlive:
				return "", fmt.Errorf("liveness is %q: %s", v.Liveness, v.Message)
			case v.Role == driver.RoleUnknown:
				return "", fmt.Errorf("role is unknown: %s", v.Message)
			case v.Role == driver.RoleFollower && v.Leader == "":
				return "", errors.New("role is follower, and no leader is named")
			case v.Ready && v.CaughtUp == nil && v.Role != driver.RoleNone:
				return "", errors.New("caught_up is absent: the member is never available to a rollout")
			}
			return fmt.Sprintf("leader %q, epoch %d", s.first.Leader, s.first.Epoch), nil
		},
	}, {
		name:     "answers repeat",
		expected: "the same answer while nothing changes, apart from lag_bytes",
		fix:      "keep times, counters and random words out of the texts, and sort lists: every change of an answer is sent to the coordinators",
		run:      steady,
	}, {
		name:     "answers do not wait for each other",
		expected: "each of 3 observations at the same time answered in time",
		fix:      "answer GET /v1/member without a lock that another call holds, and bound each request to the workload to less than the time of the answer, 900 ms, or 1.8 s for a command",
		run:      together,
	}}
}

// steady compares answers. A change is looked at once more: the workload itself may have changed.
func steady(ctx context.Context, s *suite) (string, error) {
	var moved error
	for range 3 {
		if moved = s.repeat(ctx); moved == nil {
			return "", nil
		}
	}
	return "", moved
}

func (s *suite) repeat(ctx context.Context) error {
	var last driver.View
	for i := range repeats {
		v, err := s.observe(ctx)
		if err != nil {
			return err
		}
		if i > 0 && !v.Equal(last) {
			return fmt.Errorf("two answers in a row differ: %s", difference(asMember(last), asMember(v)))
		}
		last = v
	}
	return nil
}

func together(ctx context.Context, s *suite) (string, error) {
	var (
		all     sync.WaitGroup
		errs    [atOnce]error
		longest [atOnce]time.Duration
	)
	for i := range atOnce {
		all.Go(func() {
			began := time.Now()
			_, errs[i] = s.observe(ctx)
			longest[i] = time.Since(began)
		})
	}
	all.Wait()
	return fmt.Sprintf("the slowest in %s", slices.Max(longest[:]).Round(time.Millisecond)), errors.Join(errs[:]...)
}

// asMember is a view in the words of the contract, so that built-in drivers are held to it too.
func asMember(v driver.View) adapter.Member {
	m := adapter.Member{
		Role: string(v.Role), Liveness: string(v.Liveness), Ready: v.Ready, CaughtUp: v.CaughtUp, LagBytes: v.LagBytes,
		Leader: v.Leader, Epoch: v.Epoch, Voters: v.Voters, Learners: v.Learners, MemberIDs: v.MemberIDs, Followers: v.Followers,
		Busy: v.Busy, MayDisrupt: v.MayDisrupt, MayDisruptReason: v.MayDisruptReason, Message: v.Message, Fault: v.Fault,
		Version: v.Version, DataFormat: v.DataFormat,
	}
	if v.Liveness == driver.LivenessUnknown {
		m.Liveness = adapter.Unknown
	}
	return m
}

// difference names the fields in which two answers differ.
func difference(a, b adapter.Member) string {
	fields := func(m adapter.Member) map[string]json.RawMessage {
		m.LagBytes = nil
		var out map[string]json.RawMessage
		if raw, err := json.Marshal(m); err == nil {
			_ = json.Unmarshal(raw, &out) // was written here
		}
		return out
	}
	was, is := fields(a), fields(b)
	var out []string
	for _, name := range slices.Sorted(keys(was, is)) {
		if string(was[name]) != string(is[name]) {
			out = append(out, fmt.Sprintf("%s was %.80s and is %.80s", name, orAbsent(was[name]), orAbsent(is[name])))
		}
	}
	return strings.Join(out, "; ")
}

func keys(maps ...map[string]json.RawMessage) func(yield func(string) bool) {
	all := map[string]bool{}
	for _, m := range maps {
		for name := range m {
			all[name] = true
		}
	}
	return func(yield func(string) bool) {
		for name := range all {
			if !yield(name) {
				return
			}
		}
	}
}

func orAbsent(text json.RawMessage) string {
	if text == nil {
		return "absent"
	}
	return string(text)
}
