package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Operations lists the Operations in progress, newest first; of all groups when name is empty. With
// all set it includes the ended ones.
func (c *Client) Operations(ctx context.Context, name string, all bool) ([]operation.Operation, error) {
	const doing = "list operations"
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.operations.ListOperations(ctx, &apiv1.ListOperationsRequest{Group: name, All: all})
	if err != nil {
		return nil, c.wrap(doing, err)
	}
	return decodeAll[operation.Operation](doing, r.GetOperationsJson())
}

// Asked is an operator's request that has not been acted on.
type Asked struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"`
	Group     string    `json:"group,omitempty"`
	Slot      string    `json:"slot,omitempty"`
	Operation string    `json:"operation,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	By        string    `json:"by,omitempty"`
	At        time.Time `json:"at,omitzero"`
}

// Requests lists the requests that have not been acted on, oldest first; of all groups when name is
// empty.
func (c *Client) Requests(ctx context.Context, name string) ([]Asked, error) {
	const doing = "list requests"
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.operations.ListOperations(ctx, &apiv1.ListOperationsRequest{Group: name})
	if err != nil {
		return nil, c.wrap(doing, err)
	}
	return decodeAll[Asked](doing, r.GetRequestsJson())
}

// CancelRequest cancels a request that has not been acted on, by its id or a unique prefix of it.
// changed is false when there is none. Kind Conflict when it is carried out already.
func (c *Client) CancelRequest(ctx context.Context, id string) (changed bool, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.operations.CancelRequest(ctx, &apiv1.CancelRequestRequest{RequestId: id})
	return r.GetChanged(), c.wrap("cancel request "+id, err)
}

// Operation is one Operation, or a request that waits in the queue.
type Operation struct {
	Operation *operation.Operation `json:"operation,omitempty"`
	Request   *Asked               `json:"request,omitempty"`
}

// Operation reads an Operation by its id or by the id of its request, or reads a waiting request. A
// unique prefix of an id works too. Kind NotFound when nothing matches.
func (c *Client) Operation(ctx context.Context, id string) (Operation, error) {
	doing := "show operation " + id
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.operations.GetOperation(ctx, &apiv1.GetOperationRequest{Operation: id})
	if err != nil {
		return Operation{}, c.wrap(doing, err)
	}
	var out Operation
	if text := r.GetOperationJson(); len(text) > 0 {
		out.Operation = new(operation.Operation)
		if err := decode(doing, text, out.Operation); err != nil {
			return out, err
		}
	}
	if text := r.GetRequestJson(); len(text) > 0 {
		out.Request = new(Asked)
		return out, decode(doing, text, out.Request)
	}
	return out, nil
}

// newRequest creates the id of a request; every retry of a call has the same id.
func newRequest(kind string) (string, error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return "", fmt.Errorf("make the id of a request: %w", err)
	}
	return kind + "-" + hex.EncodeToString(id), nil
}

// How often a call with a request id is tried while no coordinator answers.
const (
	requestTries = 4
	requestPause = 300 * time.Millisecond
)

// request makes a call that may be retried: the id makes the retries one request.
func (c *Client) request(ctx context.Context, doing, kind string, call func(ctx context.Context, id string) error) error {
	id, err := newRequest(kind)
	if err != nil {
		return err
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	for try := 1; ; try++ {
		err := c.wrap(doing, call(ctx, id))
		if KindOf(err) != Unavailable || err == nil || try == requestTries {
			return err
		}
		timer := time.NewTimer(requestPause * time.Duration(try))
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

// Restart queues a restart of one Slot at its current Revision, under the group's budget and quorum
// rules, and returns the request's id.
func (c *Client) Restart(ctx context.Context, slot, reason string) (id string, err error) {
	return c.restart(ctx, "restart instance "+slot, &apiv1.RestartInstanceRequest{Slot: slot, Reason: reason})
}

// RestartService queues a restart of one service of a Slot under the same rules, and returns the
// request's id. The Slot's agent restarts it in its container. The call fails with
// FailedPrecondition when the agent does not report, or when the service has no x-cadre key in the
// Slot's Revision.
func (c *Client) RestartService(ctx context.Context, slot, service, reason string) (id string, err error) {
	return c.restart(ctx, "restart service "+service+" of "+slot, &apiv1.RestartInstanceRequest{Slot: slot, Service: service, Reason: reason})
}

func (c *Client) restart(ctx context.Context, doing string, req *apiv1.RestartInstanceRequest) (id string, err error) {
	err = c.request(ctx, doing, "restart", func(ctx context.Context, request string) error {
		req.RequestId = request
		r, err := c.api.RestartInstance(ctx, req)
		id = r.GetRequestId()
		return err
	})
	return id, err
}

// requestUpdate queues the update of one Slot and returns the request's id.
func (c *Client) requestUpdate(ctx context.Context, slot, reason string) (id string, err error) {
	err = c.request(ctx, "update instance "+slot, "update", func(ctx context.Context, request string) error {
		r, err := c.api.UpdateInstance(ctx, &apiv1.UpdateInstanceRequest{Slot: slot, Reason: reason, RequestId: request})
		id = r.GetRequestId()
		return err
	})
	return id, err
}

// Replacement is the effect of replacing a Slot's CVM; with DryRun the effect that it would have.
type Replacement struct {
	RequestID  string `json:"request_id,omitempty"`
	Slot       string `json:"slot"`
	DryRun     bool   `json:"dry_run,omitempty"`
	VMUUID     string `json:"vm_uuid,omitempty"`
	InstanceID string `json:"instance_id,omitempty"`
	// PlatformName and PlatformStatus of the CVM; the status is empty when the platform does not
	// list it.
	PlatformName   string   `json:"platform_name,omitempty"`
	PlatformStatus string   `json:"platform_status,omitempty"`
	Warnings       []string `json:"warnings,omitempty"`
}

// Replace requests a new CVM with a new disk for one Slot: the content of the old disk is lost.
func (c *Client) Replace(ctx context.Context, slot, reason string, dryRun bool) (Replacement, error) {
	var r *apiv1.ReplaceInstanceResponse
	err := c.request(ctx, "replace instance "+slot, "replace", func(ctx context.Context, request string) (err error) {
		r, err = c.operations.ReplaceInstance(ctx, &apiv1.ReplaceInstanceRequest{Slot: slot, Reason: reason, RequestId: request, DryRun: dryRun})
		return err
	})
	out := Replacement{
		Slot: slot, DryRun: dryRun, VMUUID: r.GetVmUuid(), InstanceID: r.GetInstanceId(), PlatformName: r.GetPlatformName(),
		PlatformStatus: r.GetPlatformStatus(), Warnings: r.GetWarnings(),
	}
	if !dryRun {
		out.RequestID = r.GetRequestId()
	}
	return out, err
}

// Resolved is the outcome of Resolve.
type Resolved struct {
	RequestID string              `json:"request_id,omitempty"`
	As        string              `json:"as"`
	DryRun    bool                `json:"dry_run,omitempty"`
	Operation operation.Operation `json:"operation"`
	Warnings  []string            `json:"warnings,omitempty"`
}

// Resolve settles an Operation's undecided platform call: "done" or "failed".
func (c *Client) Resolve(ctx context.Context, id, as, reason string, dryRun bool) (Resolved, error) {
	doing := "resolve operation " + id
	var r *apiv1.ResolveOperationResponse
	err := c.request(ctx, doing, "resolve", func(ctx context.Context, request string) (err error) {
		r, err = c.operations.ResolveOperation(ctx, &apiv1.ResolveOperationRequest{Operation: id, As: as, Reason: reason, RequestId: request, DryRun: dryRun})
		return err
	})
	out := Resolved{As: as, DryRun: dryRun, Warnings: r.GetWarnings()}
	if err != nil {
		return out, err
	}
	if !dryRun {
		out.RequestID = r.GetRequestId()
	}
	return out, decode(doing, r.GetOperationJson(), &out.Operation)
}

// Retried is the outcome of Retry.
type Retried struct {
	// Changed is false when the rollout has not failed: State has its state.
	Changed   bool   `json:"changed"`
	RequestID string `json:"request_id,omitempty"`
	Rollout   string `json:"rollout,omitempty"`
	State     string `json:"rollout_state,omitempty"`
}

// Retry retries the group's failed rollout.
func (c *Client) Retry(ctx context.Context, name, reason string) (out Retried, err error) {
	err = c.request(ctx, "retry the rollout of "+name, "retry", func(ctx context.Context, request string) error {
		r, err := c.operations.RetryRollout(ctx, &apiv1.RetryRolloutRequest{Group: name, Reason: reason, RequestId: request})
		out = Retried{Changed: r.GetChanged(), Rollout: r.GetRollout(), State: r.GetRolloutState()}
		if out.Changed {
			out.RequestID = r.GetRequestId()
		}
		return err
	})
	return out, err
}

// Promoted is the outcome of Promote.
type Promoted struct {
	// Changed is false when no stage waits for a promotion: Message says why.
	Changed   bool   `json:"changed"`
	RequestID string `json:"request_id,omitempty"`
	Rollout   string `json:"rollout,omitempty"`
	// Stage is the number of the stage, from 1, of Stages.
	Stage   int    `json:"stage,omitempty"`
	Stages  int    `json:"stages,omitempty"`
	Message string `json:"message,omitempty"`
	// Gates are the closed gates that hold the promoted stage; empty: none does.
	Gates string `json:"gates,omitempty"`
}

// Promote promotes the open stage of the group's rollout.
func (c *Client) Promote(ctx context.Context, name, reason string) (out Promoted, err error) {
	err = c.request(ctx, "promote the rollout of "+name, "promote", func(ctx context.Context, request string) error {
		r, err := c.operations.PromoteRollout(ctx, &apiv1.PromoteRolloutRequest{Group: name, Reason: reason, RequestId: request})
		out = Promoted{Changed: r.GetChanged(), Rollout: r.GetRollout(), Stage: int(r.GetStage()), Stages: int(r.GetStages()), Message: r.GetMessage(), Gates: r.GetGates()}
		if out.Changed {
			out.RequestID = r.GetRequestId()
		}
		return err
	})
	return out, err
}

// Deletion describes how a group is deleted. Exactly one of KeepCVMs and DeleteDisks is set, unless
// Cancel is.
type Deletion struct {
	KeepCVMs, DeleteDisks bool
	Reason                string
	DryRun                bool
	// Cancel cancels a deletion: everything that still exists stays.
	Cancel bool
}

// Deleted is the effect of deleting a group; with DryRun the effect that it would have.
type Deleted struct {
	Group string `json:"group"`
	// Changed is false when the deletion was in effect already.
	Changed  bool     `json:"changed"`
	DryRun   bool     `json:"dry_run,omitempty"`
	Slots    []string `json:"slots"`
	Warnings []string `json:"warnings,omitempty"`
}

// DeleteGroup deletes a group. The leader does it Slot by Slot.
func (c *Client) DeleteGroup(ctx context.Context, name string, d Deletion) (Deleted, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.operations.DeleteGroup(ctx, &apiv1.DeleteGroupRequest{
		Group: name, KeepCvms: d.KeepCVMs, DeleteDisks: d.DeleteDisks, Reason: d.Reason, DryRun: d.DryRun, Cancel: d.Cancel,
	})
	return Deleted{Group: name, Changed: r.GetChanged(), DryRun: d.DryRun, Slots: list(r.GetSlots()), Warnings: r.GetWarnings()}, c.wrap("delete group "+name, err)
}

// Adoptable lists the members of a group that no record binds, each with its attested claims.
func (c *Client) Adoptable(ctx context.Context, name string) ([]rollout.Adoptable, error) {
	doing := "list what group " + name + " could adopt"
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.operations.ListAdoptable(ctx, &apiv1.ListAdoptableRequest{Group: name})
	if err != nil {
		return nil, c.wrap(doing, err)
	}
	return decodeAll[rollout.Adoptable](doing, r.GetAdoptableJson())
}

// Adopt makes the leader bind members exactly as they were listed.
func (c *Client) Adopt(ctx context.Context, name string, members []rollout.Adoptable, reason string) (changed bool, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	req := &apiv1.AdoptGroupRequest{Group: name, Reason: reason}
	for _, m := range members {
		req.Members = append(req.Members, &apiv1.AdoptMember{Slot: m.Slot, InstanceId: m.InstanceID, ComposeHash: m.ComposeHash})
	}
	r, err := c.operations.AdoptGroup(ctx, req)
	return r.GetChanged(), c.wrap("adopt members of group "+name, err)
}

// OperationError reports that an awaited Operation failed.
type OperationError struct{ Operation operation.Operation }

func (e *OperationError) Error() string {
	text := fmt.Sprintf("%s of %s is %s", e.Operation.Kind, e.Operation.Slot, e.Operation.Phase)
	if e.Operation.Reason != "" {
		text += ": " + e.Operation.Reason
	}
	return text
}

// pollEvery is the interval of polling for states that no stream reports.
const pollEvery = time.Second

// Poll calls look repeatedly until it returns done, or ctx ends. It reports errors of coordinators
// that come and go to lost (may be nil), and continues.
func Poll(ctx context.Context, look func(context.Context) (done bool, err error), lost func(error)) error {
	for {
		done, err := look(ctx)
		switch k := KindOf(err); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && done:
			return nil
		case err != nil && k != Unavailable && k != Timeout:
			return err
		case err != nil && lost != nil:
			lost(err)
		}
		timer := time.NewTimer(pollEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// ErrDeletionCancelled reports that a deletion was cancelled: everything that still existed stays.
var ErrDeletionCancelled = errors.New("the deletion was cancelled")

// WaitGone waits until a deleted group is gone. see receives each new message about it, and lost
// each loss of the connection; both may be nil. ErrDeletionCancelled: an operator cancelled the deletion.
func (c *Client) WaitGone(ctx context.Context, name string, see func(message string), lost func(error)) error {
	last, d := "", deletionWatch{}
	return Poll(ctx, func(ctx context.Context) (bool, error) {
		g, err := c.Group(ctx, name)
		switch {
		case KindOf(err) == NotFound && err != nil:
			return true, nil
		case err != nil:
			return false, err
		case d.kept(g.Deleting, time.Now()):
			return false, fmt.Errorf("wait until group %s is gone: %w", name, ErrDeletionCancelled)
		case g.Status.Message != last:
			last = g.Status.Message
			call(see, last)
		}
		return false, nil
	}, lost)
}

// deletionWatch detects a cancelled deletion. Coordinators learn of a switch one after the other,
// so a missing switch proves the cancellation only after a while.
type deletionWatch struct {
	seen   bool
	absent time.Time // since when no coordinator reports the deletion; zero: one does
}

func (d *deletionWatch) kept(deleting *bool, now time.Time) bool {
	switch {
	case deleting == nil:
		return false
	case *deleting:
		d.seen, d.absent = true, time.Time{}
		return false
	case d.absent.IsZero():
		d.absent = now
	}
	grace := propagationLimit
	if d.seen {
		grace = pauseGrace
	}
	return now.Sub(d.absent) >= grace
}

// WaitRequest waits until the Operation of a request has ended; see receives each state that was
// read. A request that has left the queue without an Operation needed no action, and the leader
// removed it. *OperationError when the Operation failed.
func (c *Client) WaitRequest(ctx context.Context, id string, see func(Operation), lost func(error)) error {
	return Poll(ctx, func(ctx context.Context) (bool, error) {
		o, err := c.Operation(ctx, id)
		if err != nil {
			return false, err
		}
		see(o)
		switch {
		case o.Operation == nil || !o.Operation.Phase.Ended():
			return false, nil
		case o.Operation.Phase == operation.Done:
			return true, nil
		}
		return false, &OperationError{Operation: *o.Operation}
	}, lost)
}
