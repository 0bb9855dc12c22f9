package secrets

import (
	"strings"
	"testing"
	"time"

	"cadre.dev/store"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ring(members int, counts ...map[uint32]int) Ring {
	return Ring{Members: members, Holding: counts[0], Primary: counts[1]}
}

func none() map[uint32]int { return map[uint32]int{} }

// TOK-10: a step ends only when every live member has its effect. The delivered key changes only
// when all members send with the new one.
func TestTOK10_StepsWaitForEveryMember(t *testing.T) {
	rest := begin(store.ClusterSecrets, store.GossipSecret, now)
	install := start(rest, "asked", "operator", now)
	with := func(rec store.SecretRecord, change func(*store.SecretRecord)) store.SecretRecord {
		change(&rec)
		return rec
	}
	use := with(install, func(r *store.SecretRecord) { r.Step = store.RotationUse })
	settle := with(use, func(r *store.SecretRecord) {
		r.Step, r.Epoch, r.Previous, r.Next = store.RotationSettle, 2, 1, 0
	})
	remove := with(settle, func(r *store.SecretRecord) { r.Step = store.RotationRemove })
	for name, tc := range map[string]struct {
		rec   store.SecretRecord
		ring  Ring
		want  store.RotationStep
		epoch uint32
	}{
		"install: two of three":              {install, ring(3, map[uint32]int{1: 3, 2: 2}, map[uint32]int{1: 3}), store.RotationInstall, 1},
		"install: all":                       {install, ring(3, map[uint32]int{1: 3, 2: 3}, map[uint32]int{1: 3}), store.RotationUse, 1},
		"install: no member answers":         {install, ring(0, none(), none()), store.RotationInstall, 1},
		"use: one sends with the old":        {use, ring(3, map[uint32]int{1: 3, 2: 3}, map[uint32]int{1: 1, 2: 2}), store.RotationUse, 1},
		"use: all":                           {use, ring(3, map[uint32]int{1: 3, 2: 3}, map[uint32]int{2: 3}), store.RotationSettle, 2},
		"use: no member answers":             {use, ring(0, none(), none()), store.RotationUse, 1},
		"settle":                             {settle, ring(3, none(), none()), store.RotationRemove, 2},
		"remove: one holds it":               {remove, ring(3, map[uint32]int{1: 1, 2: 3}, map[uint32]int{2: 3}), store.RotationRemove, 2},
		"remove: gone everywhere":            {remove, ring(3, map[uint32]int{2: 3}, map[uint32]int{2: 3}), store.RotationRest, 2},
		"remove: a key of an earlier one":    {remove, Ring{Members: 3, Holding: map[uint32]int{2: 3}, Primary: map[uint32]int{2: 3}, Others: 1}, store.RotationRemove, 2},
		"remove: a member came with neither": {remove, ring(3, map[uint32]int{2: 2}, map[uint32]int{2: 2}), store.RotationRemove, 2},
		"rest":                               {rest, ring(3, none(), none()), store.RotationRest, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got := advance(tc.rec, tc.ring, now)
			if got.Step != tc.want || got.Epoch != tc.epoch {
				t.Errorf("step %q epoch %d, want %q and %d", got.Step, got.Epoch, tc.want, tc.epoch)
			}
			if got.Step == tc.rec.Step && got != tc.rec {
				t.Errorf("a step that goes on changed the record: %+v", got)
			}
			if got.Step == store.RotationRest && (got.Previous != 0 || got.Next != 0 || !got.PreviousUntil.IsZero()) {
				t.Errorf("at rest two keys are named: %+v", got)
			}
		})
	}
}

func TestTOK10_DueAfterADayOrWhenAsked(t *testing.T) {
	rec := begin("g", "x", now)
	for name, tc := range map[string]struct {
		asked *store.RotateRequest
		every time.Duration
		after time.Duration
		want  bool
		by    string
	}{
		"not yet":              {nil, GossipEvery, GossipEvery - 1, false, ""},
		"a day":                {nil, GossipEvery, GossipEvery, true, bySchedule},
		"manual":               {nil, 0, 1000 * time.Hour, false, ""},
		"asked":                {&store.RotateRequest{By: "operator"}, 0, 0, true, "operator"},
		"asked before its day": {&store.RotateRequest{By: "operator"}, GossipEvery, 0, true, "operator"},
	} {
		t.Run(name, func(t *testing.T) {
			_, by, got := due(rec, tc.asked, tc.every, now.Add(tc.after))
			if got != tc.want || by != tc.by {
				t.Errorf("due = %t by %q", got, by)
			}
		})
	}
	if got := raise(rec, strings.Repeat("x", 9999), "operator", now); got.Epoch != 2 || len(got.Reason) > 500 {
		t.Errorf("raised: epoch %d, a reason of %d bytes", got.Epoch, len(got.Reason))
	}
}

// A coordinator that was away finds the key in force, and a coordinator that joins well is not
// disturbed.
func TestTOK10_DoubtFindsTheKeyInForce(t *testing.T) {
	long := now.Add(-aloneFor)
	for name, tc := range map[string]struct {
		own     uint32
		alone   time.Time
		answers map[string]answer
		want    uint32
	}{
		"it reads":                      {1, time.Time{}, map[string]answer{"a": {5, true, now}}, 0},
		"an election":                   {1, now.Add(-time.Second), map[string]answer{"a": {5, true, now}}, 0},
		"no member answers":             {1, long, nil, 0},
		"the key is in force":           {5, long, map[string]answer{"a": {5, true, now}}, 0},
		"another one is in force":       {1, long, map[string]answer{"a": {5, true, now}}, 5},
		"a lower one is in force":       {7, long, map[string]answer{"a": {5, true, now}, "b": {7, false, now}}, 5},
		"an old answer":                 {1, long, map[string]answer{"a": {5, true, now.Add(-time.Minute)}}, 0},
		"all are alone: the highest":    {1, long, map[string]answer{"a": {5, false, now}, "b": {4, false, now}}, 5},
		"all are alone: own is highest": {6, long, map[string]answer{"a": {5, false, now}, "b": {4, false, now}}, 0},
		"all are alone: the same":       {1, long, map[string]answer{"a": {1, false, now}, "b": {1, false, now}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, yes := doubt(tc.own, tc.alone, tc.answers, now)
			if yes != (tc.want != 0) || yes && got != tc.want {
				t.Errorf("doubt = %d %t, want %d", got, yes, tc.want)
			}
		})
	}
}
