package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/deployment"
	"cadre.dev/core/group"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Deployment is a deployment with its kept versions, the present one first.
type Deployment struct {
	Name     string              `json:"name"`
	Versions []DeploymentVersion `json:"versions"`
	// Unreadable: the record cannot be read, so there is no version.
	Unreadable bool `json:"unreadable,omitempty"`
}

// DeploymentVersion is one version of a deployment.
type DeploymentVersion struct {
	Number    int       `json:"number"`
	By        string    `json:"by"`
	At        time.Time `json:"at"`
	RequestID string    `json:"request_id,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	// Of is the earlier version that an undo brought back; 0: the version is no undo.
	Of     int               `json:"of,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// Digests has the digest of each group's spec.
	Digests map[string]string `json:"digests"`
}

// Present is the newest version.
func (d Deployment) Present() DeploymentVersion {
	if len(d.Versions) == 0 {
		return DeploymentVersion{}
	}
	return d.Versions[0]
}

// DeploymentState is a deployment with the document of one version.
type DeploymentState struct {
	Deployment
	Document deployment.Document `json:"document"`
	// Drifted are the groups of the version whose stored spec differs from it, or is missing.
	Drifted []string `json:"drifted,omitempty"`
	// Indexes are those of the stored specs of the version's groups; 0: the group is missing.
	Indexes map[string]uint64 `json:"-"`
}

// DeploymentOptions are the options of ApplyDeployment.
type DeploymentOptions struct {
	// ExpectedVersion is the present version of an earlier read; 0: any. ExpectAbsent only creates.
	ExpectedVersion int
	ExpectAbsent    bool
	// Indexes are the spec indexes of an earlier read, by group; 0: the group was absent. Without an entry: any.
	Indexes map[string]uint64
	// DryRun only validates and compares.
	DryRun bool
	Reason string
	// Verb begins the request's id; "" means apply.
	Verb string
}

// AppliedDeployment is the outcome of a write of a deployment.
type AppliedDeployment struct {
	// Changed is false when the present version and all stored specs were the same already.
	Changed bool `json:"changed"`
	// Version is the present one after the call, or the version that a dry run would write. Of is the version
	// that an undo brings back.
	Version int                `json:"version"`
	Of      int                `json:"of,omitempty"`
	Groups  []DeploymentChange `json:"groups"`
	// Leaving are groups of the present version that the document leaves out. They keep running.
	Leaving   []string `json:"leaving,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
	By        string   `json:"by,omitempty"`
	RequestID string   `json:"request_id,omitempty"`
}

// DeploymentChange is the outcome for one group.
type DeploymentChange struct {
	Group   string `json:"group"`
	Changed bool   `json:"changed"`
	// Index and Revision of the spec, as in Applied.
	Index    uint64   `json:"index"`
	Revision string   `json:"revision"`
	Warnings []string `json:"warnings,omitempty"`
	// LeavingSlots and HeldDisks are as in Applied.
	LeavingSlots []string `json:"leaving_slots,omitempty"`
	HeldDisks    []string `json:"held_disks,omitempty"`
	// Spec as it is written.
	Spec group.Spec `json:"-"`
}

// ApplyDeployment validates a document, and writes its specs and a new version in one transaction.
func (c *Client) ApplyDeployment(ctx context.Context, doc deployment.Document, o DeploymentOptions) (AppliedDeployment, error) {
	req := &apiv1.ApplyDeploymentRequest{Name: doc.Name, Labels: doc.Labels}
	for _, spec := range doc.Groups {
		text, err := json.Marshal(spec)
		if err != nil {
			return AppliedDeployment{}, fmt.Errorf("apply deployment %s: encode the spec of %s: %w", doc.Name, spec.Name, err)
		}
		req.Groups = append(req.Groups, o.group(spec.Name, text))
	}
	return c.writeDeployment(ctx, "apply deployment "+doc.Name, req, o)
}

// UndoDeployment writes an earlier version again, as a new one; version 0: the one before.
func (c *Client) UndoDeployment(ctx context.Context, name string, version int, o DeploymentOptions) (AppliedDeployment, error) {
	o.Verb = cmp.Or(o.Verb, "undo")
	req := &apiv1.ApplyDeploymentRequest{Name: name, Undo: true, UndoTo: int64(version)}
	for of := range o.Indexes {
		req.Groups = append(req.Groups, o.group(of, nil))
	}
	return c.writeDeployment(ctx, "undo deployment "+name, req, o)
}

// group is a group of a request, with the index that the caller read.
func (o DeploymentOptions) group(name string, spec []byte) *apiv1.DeploymentGroup {
	index, read := o.Indexes[name]
	return &apiv1.DeploymentGroup{Group: name, SpecJson: spec, ExpectedIndex: index, ExpectAbsent: read && index == 0}
}

func (c *Client) writeDeployment(ctx context.Context, doing string, req *apiv1.ApplyDeploymentRequest, o DeploymentOptions) (AppliedDeployment, error) {
	request, err := newRequest(cmp.Or(o.Verb, "apply"))
	if err != nil {
		return AppliedDeployment{}, fmt.Errorf("%s: %w", doing, err)
	}
	req.ExpectedVersion, req.ExpectAbsent, req.DryRun, req.Reason, req.RequestId = int64(o.ExpectedVersion), o.ExpectAbsent, o.DryRun, o.Reason, request
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewDeploymentServiceClient(c.conn).ApplyDeployment(ctx, req)
	if err != nil {
		return AppliedDeployment{}, c.wrap(doing, err)
	}
	out := AppliedDeployment{Changed: r.GetChanged(), Version: int(r.GetVersion()), Of: int(r.GetOf()), Leaving: r.GetLeaving(), Warnings: r.GetWarnings(), By: r.GetBy(), RequestID: r.GetRequestId()}
	for _, g := range r.GetGroups() {
		one := DeploymentChange{Group: g.GetGroup(), Changed: g.GetChanged(), Index: g.GetIndex(), Revision: g.GetRevision(), Warnings: g.GetWarnings(), LeavingSlots: g.GetLeavingSlots(), HeldDisks: g.GetHeldDisks()}
		if err := decode(doing, g.GetSpecJson(), &one.Spec); err != nil {
			return out, err
		}
		out.Groups = append(out.Groups, one)
	}
	return out, nil
}

// Deployment reads a deployment with the document of a version; 0: the present one. Kind NotFound: there is
// no such deployment or version.
func (c *Client) Deployment(ctx context.Context, name string, version int) (DeploymentState, error) {
	doing := "get deployment " + name
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewDeploymentServiceClient(c.conn).GetDeployment(ctx, &apiv1.GetDeploymentRequest{Name: name, Version: int64(version)})
	if err != nil {
		return DeploymentState{}, c.wrap(doing, err)
	}
	out := DeploymentState{Deployment: deploymentOf(r.GetDeployment()), Drifted: r.GetDrifted(), Indexes: map[string]uint64{}}
	out.Document = deployment.Document{Name: name}
	for _, v := range out.Versions {
		if v.Number == version || version == 0 && v.Number == out.Present().Number {
			out.Document.Labels = v.Labels
		}
	}
	for _, g := range r.GetGroups() {
		// The document is written back, so an unknown field must not get lost.
		spec, err := group.Decode(g.GetSpecJson())
		if err != nil {
			return out, &Error{Kind: Internal, Doing: doing, Message: "the spec of " + g.GetGroup() + " cannot be read: " + err.Error(), Hint: "use a program of the coordinators' version"}
		}
		out.Document.Groups = append(out.Document.Groups, spec)
		out.Indexes[g.GetGroup()] = g.GetExpectedIndex()
	}
	return out, nil
}

// Deployments lists the deployments, each with its present version alone, and the names of unreadable records.
func (c *Client) Deployments(ctx context.Context) ([]Deployment, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewDeploymentServiceClient(c.conn).ListDeployments(ctx, &apiv1.ListDeploymentsRequest{})
	if err != nil {
		return nil, c.wrap("list deployments", err)
	}
	out := []Deployment{}
	for _, d := range r.GetDeployments() {
		out = append(out, deploymentOf(d))
	}
	for _, name := range r.GetUnreadable() {
		out = append(out, Deployment{Name: name, Versions: []DeploymentVersion{}, Unreadable: true})
	}
	slices.SortFunc(out, func(a, b Deployment) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// DeletedDeployment is the outcome of DeleteDeployment.
type DeletedDeployment struct {
	Deployment string   `json:"deployment"`
	Groups     []string `json:"groups"`
	Slots      []string `json:"slots"`
	Warnings   []string `json:"warnings,omitempty"`
}

// DeleteDeployment asks for the deletion of all groups of a deployment, and removes its record. version is
// that of an earlier read; 0: any.
func (c *Client) DeleteDeployment(ctx context.Context, name string, version int, d Deletion) (DeletedDeployment, error) {
	doing := "delete deployment " + name
	request, err := newRequest("delete")
	if err != nil {
		return DeletedDeployment{}, fmt.Errorf("%s: %w", doing, err)
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewDeploymentServiceClient(c.conn).DeleteDeployment(ctx, &apiv1.DeleteDeploymentRequest{
		Name: name, KeepCvms: d.KeepCVMs, DeleteDisks: d.DeleteDisks, DryRun: d.DryRun, Reason: d.Reason, RequestId: request, ExpectedVersion: int64(version),
	})
	if err != nil {
		return DeletedDeployment{}, c.wrap(doing, err)
	}
	return DeletedDeployment{Deployment: name, Groups: r.GetGroups(), Slots: r.GetSlots(), Warnings: r.GetWarnings()}, nil
}

func deploymentOf(d *apiv1.Deployment) Deployment {
	out := Deployment{Name: d.GetName(), Versions: []DeploymentVersion{}}
	for _, v := range d.GetVersions() {
		out.Versions = append(out.Versions, DeploymentVersion{
			Number: int(v.GetNumber()), By: v.GetBy(), At: v.GetAt().AsTime(), RequestID: v.GetRequestId(), Reason: v.GetReason(), Of: int(v.GetOf()), Labels: v.GetLabels(), Digests: v.GetDigests(),
		})
	}
	return out
}
