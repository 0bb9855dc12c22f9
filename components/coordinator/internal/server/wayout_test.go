package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// queue reads all waiting requests.
func (a *api) queue(t *testing.T) map[string]store.QueueRequest {
	t.Helper()
	all, _, err := store.ReadAll[store.QueueRequest](t.Context(), a.cfg.Store, store.QueuePrefix)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]store.QueueRequest{}
	for _, q := range all {
		out[q.Value.ID] = q.Value
	}
	return out
}

// TestI17_TheSameRequestTwiceIsOneRestart: a repeated call has the same answer and no second
// effect. An id of another request is rejected.
func TestI17_TheSameRequestTwiceIsOneRestart(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	first := &apiv1.RestartInstanceRequest{Slot: "pg-0", Reason: "leaks", RequestId: "restart-1"}
	for range 2 {
		if out, err := a.RestartInstance(ctx, first); err != nil || out.GetRequestId() != "restart-1" {
			t.Fatalf("%v, %v", out, err)
		}
	}
	q := a.queue(t)
	if got := q["restart-1"]; len(q) != 1 || got.Kind != store.RequestRestart || got.Slot != "pg-0" || got.Reason != "leaks" || !strings.Contains(got.By, "cadre-operator") {
		t.Errorf("queue %+v", q)
	}
	for name, other := range map[string]*apiv1.RestartInstanceRequest{
		"another reason": {Slot: "pg-0", Reason: "because", RequestId: "restart-1"},
		"a bad id":       {Slot: "pg-0", RequestId: "a/b"},
		"an endless id":  {Slot: "pg-0", RequestId: strings.Repeat("a", 129)},
	} {
		if _, err := a.RestartInstance(ctx, other); status.Code(err) != codes.InvalidArgument || !strings.HasPrefix(message(err), "request_id: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := a.ReplaceInstance(ctx, &apiv1.ReplaceInstanceRequest{Slot: "pg-0", Reason: "leaks", RequestId: "restart-1"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("another kind under the id: %v", err)
	}
	if _, err := a.UpdateInstance(ctx, &apiv1.UpdateInstanceRequest{Slot: "pg-0", Reason: "leaks", RequestId: "restart-1"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an update under the id of a restart: %v", err)
	}
	for range 2 { // without an id each call is a new request
		if _, err := a.RestartInstance(ctx, &apiv1.RestartInstanceRequest{Slot: "pg-0"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(a.queue(t)); got != 3 {
		t.Errorf("%d requests", got)
	}
}

func TestAReplacementNamesTheLoss(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	put(a, t, store.SlotKey("pg", "pg-1"), group.SlotRecord{Group: "pg", Slot: "pg-1", Ordinal: 1})
	dry, err := a.ReplaceInstance(ctx, &apiv1.ReplaceInstanceRequest{Slot: "pg-0", DryRun: true})
	if err != nil || dry.GetInstanceId() != boundInstance || len(a.queue(t)) != 0 {
		t.Errorf("%v, %v", dry, err)
	}
	for want, bad := range map[codes.Code]*apiv1.ReplaceInstanceRequest{
		codes.InvalidArgument: {Slot: "pg-0"}, codes.NotFound: {Slot: "pg-7", Reason: "r"}, codes.FailedPrecondition: {Slot: "pg-1", Reason: "r"},
	} {
		if _, err := a.ReplaceInstance(ctx, bad); status.Code(err) != want {
			t.Errorf("%v: %v, want %v", bad, err, want)
		}
	}
	out, err := a.ReplaceInstance(ctx, &apiv1.ReplaceInstanceRequest{Slot: "pg-0", Reason: "host burnt"})
	if got := a.queue(t)[out.GetRequestId()]; err != nil || got.Kind != store.RequestReplace || !got.DeleteDisk || got.Slot != "pg-0" || got.Check() != nil {
		t.Errorf("%+v, %v", got, err)
	}
	// The request concerns this CVM, although the platform does not list it.
	if got := a.queue(t)[out.GetRequestId()]; got.InstanceID != boundInstance || !got.Gone {
		t.Errorf("%+v names no CVM", got)
	}
}

// TestWaitingRequestsAreListedAndCancelled: a request can be cancelled until a leader begins it.
func TestWaitingRequestsAreListedAndCancelled(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	for _, id := range []string{"one", "two"} {
		if _, err := a.RestartInstance(ctx, &apiv1.RestartInstanceRequest{Slot: "pg-0", Reason: "leaks", RequestId: id}); err != nil {
			t.Fatal(err)
		}
	}
	waiting := func(name string) (ids []string) {
		list, err := a.ListOperations(ctx, &apiv1.ListOperationsRequest{Group: name})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range list.GetRequestsJson() {
			var q store.QueueRequest
			if err := json.Unmarshal(text, &q); err != nil || q.InstanceID != boundInstance {
				t.Errorf("%s: %v", text, err)
			}
			ids = append(ids, q.ID)
		}
		slices.Sort(ids) // both requests may be of the same millisecond
		return ids
	}
	if got := waiting("pg"); !slices.Equal(got, []string{"one", "two"}) || len(waiting("web")) != 0 {
		t.Errorf("%v wait", got)
	}
	for _, want := range []bool{true, false} {
		if out, err := a.CancelRequest(ctx, &apiv1.CancelRequestRequest{RequestId: "one"}); err != nil || out.GetChanged() != want {
			t.Errorf("%v, %v, want %v", out, err, want)
		}
	}
	if got := waiting(""); !slices.Equal(got, []string{"two"}) {
		t.Errorf("%v wait", got)
	}
	for _, id := range []string{"restart-0f3a11", "restart-0f3a22"} {
		if _, err := a.RestartInstance(ctx, &apiv1.RestartInstanceRequest{Slot: "pg-0", Reason: "leaks", RequestId: id}); err != nil {
			t.Fatal(err)
		}
	}
	for typed, want := range map[string]codes.Code{"restart-0f3a": codes.InvalidArgument, "rest": codes.OK, "restart-": codes.OK, "restart-77": codes.OK} {
		if out, err := a.CancelRequest(ctx, &apiv1.CancelRequestRequest{RequestId: typed}); status.Code(err) != want || out.GetChanged() {
			t.Errorf("%s: %v, %v, want %v and no change", typed, out, err, want)
		}
	}
	if out, err := a.GetOperation(ctx, &apiv1.GetOperationRequest{Operation: "restart-0f3a1"}); err != nil || !strings.Contains(string(out.GetRequestJson()), "restart-0f3a11") {
		t.Errorf("a prefix of a waiting request: %v, %v", out, err)
	}
	for _, typed := range []string{"restart-0f3a1", "restart-0f3a"} { // by then only one request matches the second prefix
		if out, err := a.CancelRequest(ctx, &apiv1.CancelRequestRequest{RequestId: typed}); err != nil || !out.GetChanged() {
			t.Errorf("%s: %v, %v", typed, out, err)
		}
	}
	if got := waiting(""); !slices.Equal(got, []string{"two"}) {
		t.Errorf("%v wait", got)
	}
	put(a, t, store.OperationKey("r1.1.pg-0"), operation.Operation{ID: "r1.1.pg-0", Group: "pg", Slot: "pg-0", Kind: operation.Restart, Request: operation.Request{ID: "restart-begun"}, Phase: operation.Draining, Times: operation.Times{Created: time.Now()}})
	for _, typed := range []string{"restart-begun", "restart-begu"} {
		if _, err := a.CancelRequest(ctx, &apiv1.CancelRequestRequest{RequestId: typed}); status.Code(err) != codes.FailedPrecondition || !strings.Contains(message(err), "r1.1.pg-0") {
			t.Errorf("what is carried out, by %s: %v", typed, err)
		}
	}
	if _, err := a.CancelRequest(as(t.Context(), "00000000-0000-4000-8000-000000000bad"), &apiv1.CancelRequestRequest{RequestId: "two"}); err == nil {
		t.Error("a stranger takes a request back")
	}
	if got := waiting(""); !slices.Equal(got, []string{"two"}) {
		t.Errorf("%v wait", got)
	}
}

func TestOnlyAnUndecidedCallIsResolved(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	now := time.Now().UTC()
	for id, phase := range map[string]operation.Phase{"r1.1.pg-0": operation.Done, "r1.2.pg-0": operation.Draining, "r1.3.pg-0": operation.Acting} {
		put(a, t, store.OperationKey(id), operation.Operation{ID: id, Group: "pg", Slot: "pg-0", Kind: operation.Restart, Phase: phase, Entered: operation.PhaseTimes{}, Times: operation.Times{Created: now}})
	}
	list, err := a.ListOperations(ctx, &apiv1.ListOperationsRequest{})
	if err != nil || len(list.GetOperationsJson()) != 2 {
		t.Errorf("open: %d, %v", len(list.GetOperationsJson()), err)
	}
	if list, err = a.ListOperations(ctx, &apiv1.ListOperationsRequest{Group: "pg", All: true}); err != nil || len(list.GetOperationsJson()) != 3 {
		t.Errorf("all: %d, %v", len(list.GetOperationsJson()), err)
	}
	var got operation.Operation
	if one, err := a.GetOperation(ctx, &apiv1.GetOperationRequest{Operation: "r1.3"}); err != nil || json.Unmarshal(one.GetOperationJson(), &got) != nil || got.ID != "r1.3.pg-0" {
		t.Errorf("%+v, %v", got, err)
	}
	for name, c := range map[string]struct {
		req  *apiv1.ResolveOperationRequest
		want codes.Code
		text string
	}{
		"ended":       {&apiv1.ResolveOperationRequest{Operation: "r1.1.pg-0", As: "done", Reason: "r"}, codes.FailedPrecondition, "has ended"},
		"no call":     {&apiv1.ResolveOperationRequest{Operation: "r1.2.pg-0", As: "done", Reason: "r"}, codes.FailedPrecondition, "DRAINING"},
		"no word":     {&apiv1.ResolveOperationRequest{Operation: "r1.3.pg-0", As: "maybe", Reason: "r"}, codes.InvalidArgument, "as: "},
		"no reason":   {&apiv1.ResolveOperationRequest{Operation: "r1.3.pg-0", As: "done"}, codes.InvalidArgument, "reason: "},
		"none":        {&apiv1.ResolveOperationRequest{Operation: "r2.3.pg-0", As: "done", Reason: "r"}, codes.NotFound, "no such operation"},
		"two of them": {&apiv1.ResolveOperationRequest{Operation: "r1.", As: "done", Reason: "r"}, codes.NotFound, "no such operation"},
	} {
		if _, err := a.ResolveOperation(ctx, c.req); status.Code(err) != c.want || !strings.Contains(message(err), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	out, err := a.ResolveOperation(ctx, &apiv1.ResolveOperationRequest{Operation: "r1.3.pg-0", As: "failed", Reason: "seen on the platform", RequestId: "resolve-1"})
	if err != nil || len(out.GetWarnings()) != 1 {
		t.Errorf("%v, %v", out, err)
	}
	if q := a.queue(t)["resolve-1"]; q.Operation != "r1.3.pg-0" || q.As != store.ResolvedFailed || q.Slot != "" || q.Check() != nil {
		t.Errorf("%+v", q)
	}
}

// TestRetryRepeatsOnlyFailedWork: a failed rollout, and a step that the platform refused too often.
func TestRetryRepeatsOnlyFailedWork(t *testing.T) {
	a, _, second := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	rollout := func(state operation.RolloutState) {
		put(a, t, store.RolloutKey("pg.1"), operation.Rollout{ID: "pg.1", Group: "pg", State: state})
	}
	put(a, t, store.GroupStatusKey("pg"), group.Status{Group: "pg", Rollout: "pg.1"})
	rollout(operation.Running)
	if out, err := a.RetryRollout(ctx, &apiv1.RetryRolloutRequest{Group: "pg", Reason: "r"}); err != nil || out.GetChanged() || out.GetRolloutState() != "RUNNING" || len(a.queue(t)) != 0 {
		t.Errorf("%v, %v", out, err)
	}
	rollout(operation.FailedState)
	out, err := a.RetryRollout(ctx, &apiv1.RetryRolloutRequest{Group: "pg", Reason: "the host is back"})
	if q := a.queue(t)[out.GetRequestId()]; err != nil || !out.GetChanged() || q.Kind != store.RequestRetry || q.Group != "pg" || q.Check() != nil {
		t.Errorf("%v, %v: %+v", out, err, q)
	}
	rollout(operation.Complete)
	if out, err := a.RetryRollout(ctx, &apiv1.RetryRolloutRequest{Group: "pg", Reason: "r"}); err != nil || out.GetChanged() {
		t.Errorf("nothing waits: %v, %v", out, err)
	}
	for id := range a.queue(t) { // like a leader's answer
		if err := a.cfg.Store.Commit(ctx, store.Op{Kind: store.OpDelete, Key: store.QueueKey(id)}); err != nil {
			t.Fatal(err)
		}
	}
	current := "pg-1-" + second[:8]
	put(a, t, store.RolloutKey(current), operation.Rollout{ID: current, Group: "pg", Generation: 1, To: second, State: operation.Complete})
	put(a, t, store.GroupStatusKey("pg"), group.Status{Group: "pg", Rollout: current, Generation: 1, Target: second, Stable: second, Replicas: 3})
	put(a, t, store.SlotKey("pg", "pg-1"), group.SlotRecord{Group: "pg", Slot: "pg-1", Ordinal: 1})
	for n := range 6 {
		id := fmt.Sprintf("%s.%d.pg-1", current, n)
		put(a, t, store.OperationKey(id), operation.Operation{
			ID: id, Rollout: current, Order: n + 1, Group: "pg", Slot: "pg-1", Kind: operation.Create, To: second,
			Phase: operation.Failed, Failure: operation.Failure{Cause: operation.CauseRefused}, Reason: "the platform refused: no room", Times: operation.Times{Created: time.Now(), Ended: time.Now()},
		})
	}
	if out, err := a.RetryRollout(ctx, &apiv1.RetryRolloutRequest{Group: "pg", Reason: "there is room"}); err != nil || !out.GetChanged() {
		t.Errorf("what was refused too often is not let go on: %v, %v", out, err)
	}
	if _, err := a.RetryRollout(ctx, &apiv1.RetryRolloutRequest{Group: "pg"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without a reason: %v", err)
	}
}

// TestR95_AStageIsPromotedOnlyWhereItWaits: the request names the rollout and the stage, and nothing is written where no
// stage waits.
func TestR95_AStageIsPromotedOnlyWhereItWaits(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	out, err := a.PromoteRollout(ctx, &apiv1.PromoteRolloutRequest{Group: "pg"})
	if err != nil || out.GetChanged() || len(a.queue(t)) != 0 {
		t.Errorf("no stage waits: %v, %v", out, err)
	}
	if _, err := a.PromoteRollout(ctx, &apiv1.PromoteRolloutRequest{Group: "web"}); status.Code(err) != codes.NotFound {
		t.Errorf("no such group: %v", err)
	}
	for problem, q := range map[string]store.QueueRequest{
		"":        {Rollout: "pg-2-0123", Stage: 1},
		"stage":   {Rollout: "pg-2-0123"},
		"rollout": {Rollout: "a/b", Stage: 1},
		"slot":    {Rollout: "pg-2-0123", Stage: 1, Slot: "pg-0"},
	} {
		q.ID, q.Kind, q.Group = "p1", store.RequestPromote, "pg"
		if err := q.Check(); (err == nil) != (problem == "") || err != nil && !strings.HasPrefix(err.Error(), problem) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func TestAGroupIsDeletedOneWay(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	read := func() (store.DeleteGroup, error) {
		d, _, err := store.Read[store.DeleteGroup](ctx, a.cfg.Store, store.DeleteGroupKey("pg"))
		return d, err
	}
	for want, bad := range map[codes.Code]*apiv1.DeleteGroupRequest{
		codes.InvalidArgument: {Group: "pg", KeepCvms: true, DeleteDisks: true, Reason: "r"}, codes.NotFound: {Group: "web", KeepCvms: true, Reason: "r"},
	} {
		if _, err := a.DeleteGroup(ctx, bad); status.Code(err) != want {
			t.Errorf("%v: %v, want %v", bad, err, want)
		}
	}
	dry, err := a.DeleteGroup(ctx, &apiv1.DeleteGroupRequest{Group: "pg", KeepCvms: true, DryRun: true})
	if _, stored := read(); err != nil || !dry.GetChanged() || len(dry.GetSlots()) != 1 || stored == nil {
		t.Errorf("%v, %v", dry, err)
	}
	for i, want := range []bool{true, false} {
		out, err := a.DeleteGroup(ctx, &apiv1.DeleteGroupRequest{Group: "pg", KeepCvms: true, Reason: "moved"})
		if err != nil || out.GetChanged() != want {
			t.Errorf("%d: %v, %v", i, out, err)
		}
	}
	if d, err := read(); err != nil || !d.KeepCVMs || d.DeleteDisks || d.Reason != "moved" || !strings.Contains(d.By, "cadre-operator") {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := a.DeleteGroup(ctx, &apiv1.DeleteGroupRequest{Group: "pg", DeleteDisks: true, Reason: "all of it"}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("the other way: %v", err)
	}
	if out, err := a.DeleteGroup(ctx, &apiv1.DeleteGroupRequest{Group: "pg", Cancel: true}); err != nil || !out.GetChanged() {
		t.Errorf("%v, %v", out, err)
	}
}

// TestAScaleInNamesHeldDisks: the answer names exactly the slots whose disks may be deleted.
func TestAScaleInNamesHeldDisks(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	stored, index, err := store.ReadRaw(ctx, a.cfg.Store, store.GroupSpecKey("pg"))
	if err != nil {
		t.Fatal(err)
	}
	var smaller group.Spec
	if err := json.Unmarshal(stored, &smaller); err != nil {
		t.Fatal(err)
	}
	smaller.Replicas = 1
	smaller.Instances = []group.InstanceSettings{{Ordinal: 1, PreservedState: group.PreservedState{Disk: "data"}}}
	raw, err := json.Marshal(smaller)
	if err != nil {
		t.Fatal(err)
	}
	put(a, t, store.SlotKey("pg", "pg-1"), group.SlotRecord{Group: "pg", Slot: "pg-1", Ordinal: 1, VMUUID: "vm-1"})
	put(a, t, store.SlotKey("pg", "pg-2"), group.SlotRecord{Group: "pg", Slot: "pg-2", Ordinal: 2, VMUUID: "vm-2"})
	// An Extra slot of a rollout ends with the rollout: no spec removes it, and its disk needs no
	// consent.
	put(a, t, store.SlotKey("pg", "pg-3"), group.SlotRecord{Group: "pg", Slot: "pg-3", Ordinal: 3, VMUUID: "vm-3", Extra: true})
	req := &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: raw, ExpectedIndex: index, DryRun: true}
	dry, err := a.ApplyGroup(ctx, req)
	if err != nil || strings.Join(dry.GetHeldDisks(), " ") != "pg-2" || strings.Join(dry.GetLeaving(), " ") != "pg-1 pg-2" {
		t.Fatalf("%v, %v", dry, err)
	}
	req.DryRun, req.DeleteDisks = false, true
	if _, err := a.ApplyGroup(ctx, req); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without a reason: %v", err)
	}
	req.Reason = "half the load"
	out, err := a.ApplyGroup(ctx, req)
	if err != nil || !out.GetChanged() || len(out.GetHeldDisks()) != 0 {
		t.Fatalf("%v, %v", out, err)
	}
	d, _, err := store.Read[store.DeleteDisks](ctx, a.cfg.Store, store.DeleteDisksKey("pg"))
	if err != nil || strings.Join(d.Slots, " ") != "pg-2" || d.Reason != "half the load" {
		t.Errorf("%+v, %v", d, err)
	}
	req.ExpectedIndex = 0
	if out, err = a.ApplyGroup(ctx, req); err != nil || out.GetChanged() {
		t.Errorf("once more: %v, %v", out, err)
	}
	// After the spec wants the slot again, its disk must not be deleted.
	if out, err = a.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: "pg", SpecJson: stored}); err != nil || !out.GetChanged() {
		t.Errorf("back to three: %v, %v", out, err)
	}
	if _, err := a.cfg.Store.Get(ctx, store.DeleteDisksKey("pg")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the permission stays: %v", err)
	}
}

// TestOnlySeenMembersAreAdopted: a member without evidence is not adopted, and a request needs a
// reason.
func TestOnlySeenMembersAreAdopted(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	list, err := a.ListAdoptable(ctx, &apiv1.ListAdoptableRequest{Group: "pg"})
	if err != nil || len(list.GetAdoptableJson()) != 2 { // pg-0 is bound
		t.Fatalf("%d, %v", len(list.GetAdoptableJson()), err)
	}
	for name, c := range map[string]struct {
		req  *apiv1.AdoptGroupRequest
		want codes.Code
	}{
		"no group":    {&apiv1.AdoptGroupRequest{Group: "web", Reason: "r", Members: []*apiv1.AdoptMember{{Slot: "web-0"}}}, codes.NotFound},
		"no reason":   {&apiv1.AdoptGroupRequest{Group: "pg", Members: []*apiv1.AdoptMember{{Slot: "pg-1"}}}, codes.InvalidArgument},
		"nobody":      {&apiv1.AdoptGroupRequest{Group: "pg", Reason: "r"}, codes.InvalidArgument},
		"a bound one": {&apiv1.AdoptGroupRequest{Group: "pg", Reason: "r", Members: []*apiv1.AdoptMember{{Slot: "pg-0", InstanceId: boundInstance}}}, codes.FailedPrecondition},
		"no evidence": {&apiv1.AdoptGroupRequest{Group: "pg", Reason: "r", Members: []*apiv1.AdoptMember{{Slot: "pg-1"}}}, codes.FailedPrecondition},
	} {
		if _, err := a.AdoptGroup(ctx, c.req); status.Code(err) != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := a.cfg.Store.Get(ctx, store.AdoptKey("pg")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a request was written: %v", err)
	}
}

// TestI17_ARequestThatIsCarriedOutIsNotMadeAgain: its Operation has its id.
func TestI17_ARequestThatIsCarriedOutIsNotMadeAgain(t *testing.T) {
	a, _, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	put(a, t, store.OperationKey("pg.1.pg-0"), operation.Operation{ID: "pg.1.pg-0", Group: "pg", Slot: "pg-0", Kind: operation.Restart, Request: operation.Request{ID: "restart-1", Note: "leaks"},
		Phase: operation.Booting, Entered: operation.PhaseTimes{}, Times: operation.Times{Created: time.Now().UTC()}})
	if out, err := a.RestartInstance(ctx, &apiv1.RestartInstanceRequest{Slot: "pg-0", Reason: "leaks", RequestId: "restart-1"}); err != nil || out.GetRequestId() != "restart-1" || len(a.queue(t)) != 0 {
		t.Errorf("%v, %v, queue %v", out, err, a.queue(t))
	}
	if _, err := a.RestartInstance(ctx, &apiv1.RestartInstanceRequest{Slot: "pg-0", Reason: "else", RequestId: "restart-1"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("with other content: %v", err)
	}
}

// TestR95_APromotionNamesTheClosedGates: the answer has the gates that hold the stage after the promotion.
func TestR95_APromotionNamesTheClosedGates(t *testing.T) {
	asks, gate := rollout.Hold{Predicate: rollout.HoldStagePromotion, Message: "to go on: cadre rollout promote pg"}, rollout.Hold{Predicate: rollout.HoldStage, Message: "gate pg/alarm is closed"}
	budget := rollout.Hold{Predicate: rollout.HoldMaxUnavailable, Message: "1 of 1 in use"}
	for want, holds := range map[string][]rollout.Hold{"": {budget, asks}, "gate pg/alarm is closed": {asks, budget, gate}} {
		plan := rollout.Plan{Actions: []rollout.Action{{Slot: "pg-2", Holds: []rollout.Hold{budget}}, {Slot: "pg-1", Holds: holds}, {Slot: "pg-0", Holds: holds}}}
		if got := waitsForGates(plan); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := waitsForGates(rollout.Plan{}); got != "" {
		t.Errorf("%q", got)
	}
}
