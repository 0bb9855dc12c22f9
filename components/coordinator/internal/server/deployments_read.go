package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/core/deployment"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// GetDeployment implements DeploymentService.
func (d deploymentService) GetDeployment(ctx context.Context, req *apiv1.GetDeploymentRequest) (*apiv1.GetDeploymentResponse, error) {
	w, err := d.read(ctx, req.GetName(), "", "read")
	if err != nil {
		return nil, err
	}
	if w.index == 0 {
		return nil, status.Error(codes.NotFound, "no such deployment: "+req.GetName())
	}
	version, kept := w.present, true
	if n := req.GetVersion(); n != 0 {
		version, kept = w.record.Version(int(n))
	}
	if !kept {
		return nil, status.Errorf(codes.NotFound, "deployment %s has no version %d any more, or never had: `cadre deployment history %s` lists the versions", req.GetName(), req.GetVersion(), req.GetName())
	}
	for _, name := range version.Names() {
		if err := w.mayAsk(ctx, name); err != nil {
			return nil, err
		}
	}
	out := &apiv1.GetDeploymentResponse{Deployment: wireDeployment(w.record)}
	out.Groups, out.Drifted, err = w.decoded(ctx, req.GetName(), version)
	return out, err
}

// ListDeployments implements DeploymentService.
func (d deploymentService) ListDeployments(ctx context.Context, _ *apiv1.ListDeploymentsRequest) (*apiv1.ListDeploymentsResponse, error) {
	c, err := d.s.decider(ctx, store.DeploymentsPrefix, "", "")
	if err != nil {
		return nil, err
	}
	records, _, err := store.ReadAll[deployment.Record](ctx, d.s.cfg.Store, store.DeploymentsPrefix)
	if err != nil && len(store.RecordErrors(err)) == 0 {
		return nil, wire(err)
	}
	out := &apiv1.ListDeploymentsResponse{}
	for _, r := range records {
		present, _ := r.Value.Present()
		if !slices.ContainsFunc(present.Names(), func(name string) bool { return c.mayAsk(ctx, name) != nil }) {
			r.Value.Versions = []deployment.Version{present} // the histories of all deployments may be too large
			out.Deployments = append(out.Deployments, wireDeployment(r.Value))
		}
	}
	for _, unreadable := range store.RecordErrors(err) {
		if _, err := c.store.Get(ctx, unreadable.Key); err == nil { // the caller may read it
			out.Unreadable = append(out.Unreadable, strings.TrimPrefix(unreadable.Key, store.DeploymentsPrefix))
		}
	}
	return out, nil
}

// DeleteDeployment implements DeploymentService.
func (d deploymentService) DeleteDeployment(ctx context.Context, req *apiv1.DeleteDeploymentRequest) (*apiv1.DeleteDeploymentResponse, error) {
	if req.GetKeepCvms() == req.GetDeleteDisks() {
		return nil, status.Error(codes.InvalidArgument, "keep_cvms, delete_disks: set exactly one: the CVMs continue without Cadre, or are deleted with their disks")
	}
	w, err := d.read(ctx, req.GetName(), req.GetReason(), cmp.Or(req.GetRequestId(), "delete-"+uuid.NewString()))
	if err != nil {
		return nil, err
	}
	if w.index == 0 {
		return nil, status.Error(codes.NotFound, "no such deployment: "+req.GetName())
	}
	if err := w.expected(req.GetExpectedVersion(), false); err != nil {
		return nil, err
	}
	if err := w.mayReadAll(ctx); err != nil {
		return nil, err
	}
	out := &apiv1.DeleteDeploymentResponse{}
	var ops []store.Op
	for _, name := range w.present.Names() {
		for _, record := range w.view.SlotsOf(name) {
			out.Slots = append(out.Slots, record.Slot)
		}
		if !slices.Contains(w.view.Known(), name) {
			continue // deleted alone before
		}
		out.Groups = append(out.Groups, name)
		out.Warnings = append(out.Warnings, w.deleteWarnings(name, req.GetDeleteDisks())...)
		op, err := w.deletion(name, req)
		if err != nil {
			return nil, err
		}
		ops = append(ops, op...)
	}
	if err := w.unfollowed(); err != nil {
		return nil, err
	}
	if req.GetDryRun() {
		return out, nil
	}
	if err := needReason(req.GetReason()); err != nil {
		return nil, err
	}
	stale, err := w.unreferenced(ctx, deployment.Record{Name: req.GetName()})
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, name := range w.present.Names() {
		keys = append(keys, store.DeleteGroupKey(name))
		if slices.Contains(out.GetGroups(), name) { // no rule names the spec of a group that is gone
			keys = append(keys, store.GroupSpecKey(name))
		}
	}
	if denied, err := w.server.mayNotWrite(ctx, w.token, keys); err != nil {
		return nil, wire(err)
	} else if denied != "" {
		return nil, status.Errorf(codes.PermissionDenied, "the token may not write %s", denied)
	}
	remove := store.Op{Kind: store.OpDeleteCAS, Key: store.DeploymentKey(req.GetName()), Index: w.index}
	ops = append([]store.Op{store.Noted(remove, w.note("delete-deployment", w.request, req.GetReason()))}, ops...)
	err = w.enter(ctx, "delete", w.request, req.GetReason(), ops...)
	if errors.Is(err, store.ErrConflict) {
		return nil, status.Error(codes.Aborted, string(policy.CodeSpecConflict)+": the deployment was changed, or one of its groups is being deleted, at the same time; read it again")
	}
	if err != nil {
		return nil, wire(err)
	}
	w.server.cfg.Log.Info("deployment is to be deleted", "deployment", req.GetName(), "groups", out.GetGroups(), "keep_cvms", req.GetKeepCvms(), "by", w.by, "reason", req.GetReason())
	w.collect(ctx, req.GetName(), stale)
	return out, nil
}

// unfollowed rejects the deletion of groups that groups outside the deployment are after.
func (w *written) unfollowed() error {
	own := w.present.Names()
	var texts []string
	for _, name := range own {
		for _, follower := range w.followers(name) {
			if !slices.Contains(own, follower) {
				texts = append(texts, fmt.Sprintf("%s is after %s", follower, name))
			}
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return status.Errorf(codes.FailedPrecondition, "group: %s: delete those groups first, or change their `after`", strings.Join(texts, ", "))
}

// deletion is the request to delete one group; none where the same request exists.
func (w *written) deletion(name string, req *apiv1.DeleteDeploymentRequest) ([]store.Op, error) {
	if before, ok := w.view.Deletes[name]; ok {
		if before.Value.DeleteDisks != req.GetDeleteDisks() || before.Value.KeepCVMs != req.GetKeepCvms() {
			return nil, status.Errorf(codes.FailedPrecondition, "group %s is being deleted the other way already, by %s: cancel that first", name, before.Value.By)
		}
		return nil, nil
	}
	put, err := store.Put(store.DeleteGroupKey(name), store.DeleteGroup{
		Group: name, KeepCVMs: req.GetKeepCvms(), DeleteDisks: req.GetDeleteDisks(), Reason: req.GetReason(), By: w.by, At: w.now(),
	}, 0)
	return []store.Op{put}, wire(err)
}

func wireDeployment(r deployment.Record) *apiv1.Deployment {
	out := &apiv1.Deployment{Name: r.Name}
	for _, v := range slices.Backward(r.Versions) {
		out.Versions = append(out.Versions, &apiv1.DeploymentVersion{
			Number: int64(v.Number), By: v.By, At: timestamppb.New(v.At), RequestId: v.Request, Reason: v.Reason, Of: int64(v.Of), Labels: v.Labels, Digests: v.Groups,
		})
	}
	return out
}
