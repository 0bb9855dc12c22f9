package client

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/core/appcompose"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Admissions returns the admission of each Slot of a group; of all groups when name is empty.
func (c *Client) Admissions(ctx context.Context, name string) ([]policy.AdmissionStatus, error) {
	const doing = "list admissions"
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.policy.ListAdmissions(ctx, &apiv1.ListAdmissionsRequest{Group: name})
	if err != nil {
		return nil, c.wrap(doing, err)
	}
	return decodeAll[policy.AdmissionStatus](doing, r.GetAdmissionStatusesJson())
}

// ExplainAdmission returns the complete explanation of one Slot's admission.
func (c *Client) ExplainAdmission(ctx context.Context, slot string) (policy.Explanation, error) {
	doing := "explain the admission of " + slot
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.policy.ExplainAdmission(ctx, &apiv1.ExplainAdmissionRequest{Slot: slot})
	if err != nil {
		return policy.Explanation{}, c.wrap(doing, err)
	}
	var e policy.Explanation
	return e, decode(doing, r.GetExplanationJson(), &e)
}

// Approval is the outcome of Approve.
type Approval struct {
	Revision string `json:"revision"`
	Group    string `json:"group"`
	Number   uint64 `json:"number,omitempty"`
	// ComposeHash is the approved compose hash of the Revision.
	ComposeHash string `json:"compose_hash,omitempty"`
	// Changed is false when the approval existed already.
	Changed  bool     `json:"changed"`
	Warnings []string `json:"warnings,omitempty"`
}

// Approve approves a Revision for rollout; withdraw removes the approval. revision is a whole
// Revision, its first digits, a compose hash, or #n with a group.
func (c *Client) Approve(ctx context.Context, revision, group, note string, withdraw bool) (Approval, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.policy.ApproveRevision(ctx, &apiv1.ApproveRevisionRequest{Revision: revision, Group: group, Note: note, Withdraw: withdraw})
	return Approval{
		Revision: r.GetRevision(), Group: r.GetGroup(), Number: r.GetNumber(), ComposeHash: r.GetComposeHash(), Changed: r.GetChanged(), Warnings: r.GetWarnings(),
	}, c.wrap("approve revision "+revision, err)
}

// AppCompose is the measured document of a Revision.
type AppCompose struct {
	Revision    string `json:"revision,omitempty"`
	Group       string `json:"group"`
	ComposeHash string `json:"compose_hash"`
	// Text has exactly the bytes that are measured.
	Text string `json:"app_compose"`
	// JudgedAt is zero if no platform was asked yet: then Text is rendered now.
	JudgedAt time.Time `json:"judged_at,omitzero"`
}

// AppCompose returns the document of a Revision, named as for Approve, or of a compose hash. The
// client hashes the bytes itself.
func (c *Client) AppCompose(ctx context.Context, revision, group string) (AppCompose, error) {
	doing := "show the app-compose.json of " + revision
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.policy.GetAppCompose(ctx, &apiv1.GetAppComposeRequest{Revision: revision, Group: group})
	if err != nil {
		return AppCompose{}, c.wrap(doing, err)
	}
	out := AppCompose{Revision: r.GetRevision(), Group: r.GetGroup(), ComposeHash: r.GetComposeHash(), Text: string(r.GetAppCompose())}
	if at := r.GetJudgedAt(); at != nil {
		out.JudgedAt = at.AsTime()
	}
	if hash := appcompose.Hash(r.GetAppCompose()); hash != out.ComposeHash {
		return AppCompose{}, c.wrap(doing, fmt.Errorf("the answer says compose hash %.64s, and its text hashes to %s", out.ComposeHash, hash))
	}
	return out, nil
}

// CutOff is the effect of a revocation or a floor; with DryRun the effect that it would have.
type CutOff struct {
	// ID of the revoked object; empty for a floor.
	ID string `json:"id,omitempty"`
	// Number and Revision of a floor; unset for a revocation.
	Number   uint64 `json:"number,omitempty"`
	Revision string `json:"revision,omitempty"`
	Changed  bool   `json:"changed"`
	DryRun   bool   `json:"dry_run,omitempty"`
	// Slots lose their admission.
	Slots    []string `json:"slots"`
	Warnings []string `json:"warnings,omitempty"`
}

var revocationKinds = map[policy.RevocationKind]apiv1.RevocationKind{
	policy.RevokedInstance:    apiv1.RevocationKind_REVOCATION_KIND_INSTANCE,
	policy.RevokedRevision:    apiv1.RevocationKind_REVOCATION_KIND_REVISION,
	policy.RevokedKeyProvider: apiv1.RevocationKind_REVOCATION_KIND_KEY_PROVIDER,
}

// Revoke revokes an instance (by id or Slot), a Revision or a key provider.
func (c *Client) Revoke(ctx context.Context, kind policy.RevocationKind, id, reason string, dryRun bool) (CutOff, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.policy.Revoke(ctx, &apiv1.RevokeRequest{Kind: revocationKinds[kind], Id: id, Reason: reason, DryRun: dryRun})
	return CutOff{ID: r.GetId(), Changed: r.GetChanged(), DryRun: dryRun, Slots: list(r.GetSlots()), Warnings: r.GetWarnings()},
		c.wrap("revoke "+string(kind)+" "+id, err)
}

// Unrevoke removes a revocation; changed is false when there was none.
func (c *Client) Unrevoke(ctx context.Context, kind policy.RevocationKind, id string) (revoked string, changed bool, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.policy.Unrevoke(ctx, &apiv1.UnrevokeRequest{Kind: revocationKinds[kind], Id: id})
	return r.GetId(), r.GetChanged(), c.wrap("unrevoke "+string(kind)+" "+id, err)
}

// ReleaseSlot ends the hold of a Slot that two Boots took from each other; changed is false when it
// is not held. The leader carries it out within moments.
func (c *Client) ReleaseSlot(ctx context.Context, slot, reason string) (changed bool, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.policy.ReleaseSlot(ctx, &apiv1.ReleaseSlotRequest{Slot: slot, Reason: reason})
	return r.GetChanged(), c.wrap("release slot "+slot, err)
}

// RaiseFloor shuts out every Revision of a group that is older than the given one, or than content
// first seen at notBefore. An empty name means every group. A floor is permanent.
func (c *Client) RaiseFloor(ctx context.Context, group, revision string, notBefore time.Time, reason string, dryRun bool) (CutOff, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	req := &apiv1.RaiseFloorRequest{Group: group, Revision: revision, Reason: reason, DryRun: dryRun}
	if !notBefore.IsZero() {
		req.NotBefore = timestamppb.New(notBefore)
	}
	r, err := c.policy.RaiseFloor(ctx, req)
	return CutOff{
		Number: r.GetNumber(), Revision: r.GetRevision(), Changed: r.GetChanged(), DryRun: dryRun, Slots: list(r.GetSlots()), Warnings: r.GetWarnings(),
	}, c.wrap("raise the floor"+of(group), err)
}

// TCB returns the operators' decisions about machines.
func (c *Client) TCB(ctx context.Context) (policy.TCBOverview, error) {
	const doing = "list exceptions for machines"
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.policy.ListTCB(ctx, &apiv1.ListTCBRequest{})
	if err != nil {
		return policy.TCBOverview{}, c.wrap(doing, err)
	}
	var out policy.TCBOverview
	return out, decode(doing, r.GetOverviewJson(), &out)
}

// GrantTCB tolerates machines of a status with these advisories for a limited time. fmspc limits it
// to a family; "" means any.
func (c *Client) GrantTCB(ctx context.Context, status string, advisories []string, fmspc string, length time.Duration, reason string) (id string, until time.Time, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.policy.GrantTCBException(ctx, &apiv1.GrantTCBExceptionRequest{
		Status: status, Advisories: advisories, Fmspc: fmspc, For: durationpb.New(length), Reason: reason,
	})
	return r.GetId(), r.GetUntil().AsTime(), c.wrap("grant an exception for machines that are "+status, err)
}

// RevokeTCB ends an exception; changed is false when there is none of that id.
func (c *Client) RevokeTCB(ctx context.Context, id string) (changed bool, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.policy.RevokeTCBException(ctx, &apiv1.RevokeTCBExceptionRequest{Id: id})
	return r.GetChanged(), c.wrap("revoke exception "+id, err)
}

// LowerCollateral permits collateral of a family again, from an evaluation number on. changed is
// false when it is permitted already.
func (c *Client) LowerCollateral(ctx context.Context, fmspc string, evaluation uint32, reason string) (changed bool, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.policy.LowerCollateral(ctx, &apiv1.LowerCollateralRequest{Fmspc: fmspc, Evaluation: evaluation, Reason: reason})
	return r.GetChanged(), c.wrap("lower the collateral mark of "+fmspc, err)
}

// list never returns nil, so that JSON shows an empty list.
func list(in []string) []string { return append([]string{}, in...) }

func of(group string) string {
	if group == "" {
		return ""
	}
	return " of " + group
}
