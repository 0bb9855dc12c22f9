package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/rollout"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Applied is the outcome of ApplyGroup.
type Applied struct {
	// Changed is false when the stored spec was the same already.
	Changed bool
	// Index of the spec in the store; the ObservedIndex of a status about it is at least this.
	Index uint64
	// Revision of the spec.
	Revision string
	Warnings []string
	// Leaving are the existing Slots that the spec does not want any more. HeldDisks are the Slots
	// among them that stay until an operator consents to the deletion of their disks.
	Leaving, HeldDisks []string
	// By and RequestID name the call that wrote the spec at Index: this call if it changed the
	// spec. Empty: the coordinators are too old to report it.
	By, RequestID string
}

// ApplyOptions are the options of ApplyGroupWith.
type ApplyOptions struct {
	// ExpectedIndex is the index of an earlier read; 0: any.
	ExpectedIndex uint64
	// ExpectAbsent only creates a new group: an existing group with another spec is Kind Conflict.
	// An existing group with this very spec counts as created. Not with ExpectedIndex.
	ExpectAbsent bool
	// DryRun only validates.
	DryRun bool
	// DeleteDisks consents to the deletion of the disks of the Slots that leave, for Reason.
	DeleteDisks bool
	Reason      string
	// Verb begins the request's id, and so names the command in the records; "" means apply.
	Verb string
}

// ApplyGroup validates and writes a group's spec. expectedIndex is the index of an earlier read, 0
// for none. dryRun only validates.
func (c *Client) ApplyGroup(ctx context.Context, spec group.Spec, expectedIndex uint64, dryRun bool) (Applied, error) {
	return c.ApplyGroupWith(ctx, spec, ApplyOptions{ExpectedIndex: expectedIndex, DryRun: dryRun})
}

// ApplyGroupWith is ApplyGroup with all options.
func (c *Client) ApplyGroupWith(ctx context.Context, spec group.Spec, o ApplyOptions) (Applied, error) {
	doing := "apply group " + spec.Name
	text, err := json.Marshal(spec)
	if err != nil {
		return Applied{}, fmt.Errorf("%s: encode the spec: %w", doing, err)
	}
	request, err := newRequest(cmp.Or(o.Verb, "apply"))
	if err != nil {
		return Applied{}, fmt.Errorf("%s: %w", doing, err)
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.api.ApplyGroup(ctx, &apiv1.ApplyGroupRequest{Group: spec.Name, SpecJson: text, ExpectedIndex: o.ExpectedIndex, ExpectAbsent: o.ExpectAbsent,
		DryRun: o.DryRun, DeleteDisks: o.DeleteDisks, Reason: o.Reason, RequestId: request})
	if err != nil {
		return Applied{}, c.wrap(doing, err)
	}
	return Applied{Changed: r.GetChanged(), Index: r.GetIndex(), Revision: r.GetRevision(), Warnings: r.GetWarnings(), Leaving: r.GetLeaving(), HeldDisks: r.GetHeldDisks(),
		By: r.GetBy(), RequestID: r.GetRequestId()}, nil
}

// Group is a group's spec and status. Status is the zero value until the leader has evaluated the
// spec.
type Group struct {
	Spec   group.Spec   `json:"spec"`
	Status group.Status `json:"status"`
	Index  uint64       `json:"index"`
	// Revision of the spec, computed by the coordinators; empty when the spec is invalid, or when
	// they are too old to report it.
	Revision string `json:"revision,omitempty"`
	// Deleting: the group is being deleted; nil: the coordinators are too old to report it.
	Deleting *bool `json:"deleting,omitempty"`
	// AppliedBy and AppliedRequest name the call that wrote the spec. Empty: the coordinators are
	// too old to report it.
	AppliedBy      string `json:"applied_by,omitempty"`
	AppliedRequest string `json:"applied_request,omitempty"`
	// SpecJSON is the stored spec. Spec ignores fields that this program does not know. A caller
	// that writes a changed spec back must know them all (group.Decode rejects others).
	SpecJSON []byte `json:"-"`
}

// Group reads one group; Kind NotFound when there is none.
func (c *Client) Group(ctx context.Context, name string) (Group, error) {
	doing := "get group " + name
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.api.GetGroup(ctx, &apiv1.GetGroupRequest{Group: name})
	if err != nil {
		return Group{}, c.wrap(doing, err)
	}
	out := Group{Index: r.GetSpecIndex(), Revision: r.GetRevision(), Deleting: r.Deleting, SpecJSON: r.GetSpecJson(),
		AppliedBy: r.GetAppliedBy(), AppliedRequest: r.GetAppliedRequestId()}
	if err := decode(doing, r.GetSpecJson(), &out.Spec); err != nil {
		return Group{}, err
	}
	return out, decode(doing, r.GetStatusJson(), &out.Status)
}

// Groups lists all groups.
func (c *Client) Groups(ctx context.Context) ([]*apiv1.GroupSummary, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.api.ListGroups(ctx, &apiv1.ListGroupsRequest{})
	return r.GetGroups(), c.wrap("list groups", err)
}

// Plan returns the leader's current plan for the group; for spec instead of the stored one when it
// is not nil.
func (c *Client) Plan(ctx context.Context, name string, spec *group.Spec) (rollout.Plan, error) {
	doing := "plan group " + name
	req := &apiv1.PlanRolloutRequest{Group: name}
	if spec != nil {
		text, err := json.Marshal(spec)
		if err != nil {
			return rollout.Plan{}, fmt.Errorf("%s: encode the spec: %w", doing, err)
		}
		req.SpecJson = text
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.api.PlanRollout(ctx, req)
	if err != nil {
		return rollout.Plan{}, c.wrap(doing, err)
	}
	var p rollout.Plan
	return p, decode(doing, r.GetPlanJson(), &p)
}

// Rollouts lists a group's rollouts, newest first.
func (c *Client) Rollouts(ctx context.Context, name string) ([]operation.Rollout, error) {
	doing := "list rollouts of " + name
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.api.ListRollouts(ctx, &apiv1.ListRolloutsRequest{Group: name})
	if err != nil {
		return nil, c.wrap(doing, err)
	}
	return decodeAll[operation.Rollout](doing, r.GetRolloutsJson())
}

// Instances lists the group's Slots; of all groups when name is empty.
func (c *Client) Instances(ctx context.Context, name string) ([]group.InstanceStatus, error) {
	doing := "list instances"
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.api.ListInstances(ctx, &apiv1.ListInstancesRequest{Group: name})
	if err != nil {
		return nil, c.wrap(doing, err)
	}
	return decodeAll[group.InstanceStatus](doing, r.GetInstancesJson())
}

// Instance has all records about one Slot.
type Instance struct {
	Status     group.InstanceStatus  `json:"status"`
	Operations []operation.Operation `json:"operations"`
	Admissions []Decision            `json:"admissions"`
	// Lineage are the last CVMs that filled the Slot before, newest first.
	Lineage []group.Past `json:"lineage,omitempty"`
}

// Decision is an admission or a refusal.
type Decision struct {
	policy.Admission
	// Machine is the keyed hash of the machine of an admission, and SharesMachine the other Slots of
	// the group on it; empty: not known.
	Machine       string   `json:"machine,omitempty"`
	SharesMachine []string `json:"shares_machine,omitempty"`
	// Code and Message are set on a refusal; At is its time.
	Code    policy.Code `json:"code,omitempty"`
	Message string      `json:"message,omitempty"`
	At      string      `json:"at,omitempty"`
}

// Instance describes one Slot; Kind NotFound when there is none.
func (c *Client) Instance(ctx context.Context, slot string) (Instance, error) {
	doing := "describe instance " + slot
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.api.DescribeInstance(ctx, &apiv1.DescribeInstanceRequest{Slot: slot})
	if err != nil {
		return Instance{}, c.wrap(doing, err)
	}
	var out Instance
	if err := decode(doing, r.GetInstanceJson(), &out.Status); err != nil {
		return out, err
	}
	if out.Operations, err = decodeAll[operation.Operation](doing, r.GetOperationsJson()); err != nil {
		return out, err
	}
	if out.Admissions, err = decodeAll[Decision](doing, r.GetAdmissionsJson()); err != nil {
		return out, err
	}
	out.Lineage, err = decodeAll[group.Past](doing, r.GetLineageJson())
	return out, err
}

// Cluster describes the coordinators.
func (c *Client) Cluster(ctx context.Context) (*apiv1.GetClusterResponse, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.api.GetCluster(ctx, &apiv1.GetClusterRequest{})
	return r, c.wrap("get cluster "+c.ctx.Cluster, err)
}

// bound gives a call its deadline: the caller's, and never later than c.timeout. A long wait makes
// many calls, and learns of each unanswered one.
func (c *Client) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.timeout)
}

// decode decodes a record. A newer coordinator may send more fields. The client only shows records
// and does not decide on them, so it ignores unknown fields.
func decode(doing string, text []byte, into any) error {
	if len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: the coordinator's answer cannot be read (another version?): %w", doing, err)
	}
	return nil
}

func decodeAll[T any](doing string, texts [][]byte) ([]T, error) {
	out := make([]T, len(texts))
	for i, text := range texts {
		if err := decode(doing, text, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
