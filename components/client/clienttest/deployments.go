package clienttest

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/core/deployment"
	"cadre.dev/core/group"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// deployments are the records of a Server's deployments, and the specs of all versions by digest.
type deployments struct {
	records map[string]deployment.Record
	specs   map[string][]byte
	// begun is closed by a deletion whose groups stay until they are released; nil: the groups go at once.
	begun chan struct{}
	// unreadable are names of records that ListDeployments cannot read.
	unreadable []string
}

// UnreadableDeployment makes the record of a deployment, which may exist, unreadable in lists.
func (s *Server) UnreadableDeployment(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.deployments.records, name)
	s.deployments.unreadable = append(s.deployments.unreadable, name)
}

// HoldDeletes keeps the groups of the next deleted deployment, being deleted, until release is called. begun is closed
// when the deletion begins.
func (s *Server) HoldDeletes() (begun <-chan struct{}, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make(chan struct{})
	s.deployments.begun = held
	return held, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.deployments.begun = nil
		maps.DeleteFunc(s.groups, func(_ string, g *Group) bool { return g.Deleting })
		s.wakeLocked()
	}
}

// deploymentServer serves DeploymentService on the groups of a Server.
type deploymentServer struct {
	apiv1.UnimplementedDeploymentServiceServer
	s *Server
}

// ApplyDeployment implements DeploymentService.
func (d deploymentServer) ApplyDeployment(ctx context.Context, r *apiv1.ApplyDeploymentRequest) (*apiv1.ApplyDeploymentResponse, error) {
	defer d.s.mu.Unlock()
	if err := d.s.enter(ctx, "ApplyDeployment"); err != nil {
		return nil, err
	}
	record, exists := d.s.deployments.records[r.GetName()]
	present, _ := record.Present()
	record.Name = r.GetName()
	switch want := r.GetExpectedVersion(); {
	case r.GetExpectAbsent() && exists, want != 0 && want != int64(present.Number):
		return nil, status.Errorf(codes.Aborted, "SPEC_CONFLICT: deployment %s is at version %d", r.GetName(), present.Number)
	}
	next := deployment.Version{By: AppliedBy, At: overridesAt, Request: r.GetRequestId(), Reason: r.GetReason(), Labels: r.GetLabels(), Groups: map[string]string{}}
	groups := r.GetGroups()
	if r.GetUndo() {
		to, err := record.Before()
		if n := int(r.GetUndoTo()); n != 0 {
			var kept bool
			if to, kept = record.Version(n); !kept {
				return nil, status.Errorf(codes.NotFound, "deployment %s has no version %d", r.GetName(), n)
			}
		} else if err != nil {
			return nil, status.Error(codes.FailedPrecondition, err.Error())
		}
		next.Labels, next.Of, groups = to.Labels, to.Number, nil
		for _, name := range to.Names() {
			groups = append(groups, &apiv1.DeploymentGroup{Group: name, SpecJson: d.s.deployments.specs[to.Groups[name]]})
		}
	}
	doc := deployment.Document{Name: r.GetName(), Labels: next.Labels}
	for _, g := range groups {
		spec, err := group.Decode(g.GetSpecJson())
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, "SPEC_INVALID: "+err.Error())
		}
		doc.Groups = append(doc.Groups, spec)
	}
	known := map[string][]string{}
	for name, g := range d.s.groups {
		known[name] = g.Spec.After
	}
	if err := deployment.Error(doc.Name, deployment.Validate(doc, nil, known)); err != nil {
		return nil, status.Error(codes.InvalidArgument, "SPEC_INVALID: "+err.Error())
	}
	out := &apiv1.ApplyDeploymentResponse{Version: int64(present.Number), Of: int64(next.Of), By: present.By, RequestId: present.Request}
	for i, spec := range doc.Groups {
		text := groups[i].GetSpecJson()
		next.Groups[spec.Name] = deployment.Digest(text)
		spec.Normalize()
		one := &apiv1.DeploymentEdit{Group: spec.Name, Changed: true, Revision: d.s.revision(spec), Warnings: group.Warnings(spec), SpecJson: text}
		if g := d.s.groups[spec.Name]; g != nil {
			if !r.GetUndo() && groups[i].GetExpectAbsent() && string(encode(g.Spec)) != string(encode(spec)) {
				return nil, status.Errorf(codes.AlreadyExists, "GROUP_EXISTS: group %s exists already, with another spec", spec.Name)
			}
			if want := groups[i].GetExpectedIndex(); want != 0 && want != g.Index {
				return nil, status.Errorf(codes.Aborted, "group[%q]: SPEC_CONFLICT: the spec of %s has index %d, not %d: it was changed; read it again", spec.Name, spec.Name, g.Index, want)
			}
			one.Changed, one.Index = string(encode(g.Spec)) != string(encode(spec)), g.Index
		}
		out.Groups, out.Changed = append(out.Groups, one), out.Changed || one.GetChanged()
	}
	for _, name := range present.Names() {
		if next.Groups[name] == "" {
			out.Leaving = append(out.Leaving, name)
		}
	}
	if out.Changed = out.GetChanged() || !exists || !next.Same(present); !out.GetChanged() {
		return out, nil
	}
	record = record.Append(next)
	next, _ = record.Present()
	out.Version = int64(next.Number)
	if r.GetDryRun() {
		return out, nil
	}
	d.s.deployments.records[r.GetName()] = record
	out.By, out.RequestId = next.By, next.Request
	d.s.index++
	for i, one := range out.GetGroups() {
		d.s.deployments.specs[next.Groups[one.GetGroup()]] = one.GetSpecJson()
		if one.GetChanged() {
			d.s.storeLocked(doc.Groups[i], r.GetRequestId())
			one.Index = d.s.index
		}
	}
	d.s.wakeLocked()
	return out, nil
}

// storeLocked stores the spec of a group at the present index.
func (s *Server) storeLocked(spec group.Spec, request string) {
	spec.Normalize()
	g := s.groups[spec.Name]
	if g == nil {
		g = &Group{}
		s.groups[spec.Name] = g
	}
	g.Before = g.Spec
	g.Spec, g.Stored, g.Index, g.AppliedBy, g.AppliedRequest = spec, nil, s.index, AppliedBy, request
	if s.OnApply != nil {
		s.OnApply(g)
	}
}

// GetDeployment implements DeploymentService.
func (d deploymentServer) GetDeployment(ctx context.Context, r *apiv1.GetDeploymentRequest) (*apiv1.GetDeploymentResponse, error) {
	defer d.s.mu.Unlock()
	if err := d.s.enter(ctx, "GetDeployment"); err != nil {
		return nil, err
	}
	record, ok := d.s.deployments.records[r.GetName()]
	if !ok {
		return nil, status.Error(codes.NotFound, "no such deployment: "+r.GetName())
	}
	v, _ := record.Present()
	if n := int(r.GetVersion()); n != 0 {
		if v, ok = record.Version(n); !ok {
			return nil, status.Errorf(codes.NotFound, "deployment %s has no version %d", r.GetName(), n)
		}
	}
	out := &apiv1.GetDeploymentResponse{Deployment: wireDeployment(record)}
	for _, name := range v.Names() {
		text := d.s.deployments.specs[v.Groups[name]]
		var spec group.Spec
		if err := json.Unmarshal(text, &spec); err != nil {
			return nil, status.Error(codes.DataLoss, err.Error())
		}
		spec.Normalize()
		one := &apiv1.DeploymentGroup{Group: name, SpecJson: text}
		g := d.s.groups[name]
		if g != nil {
			one.ExpectedIndex = g.Index
		}
		if g == nil || string(encode(g.Spec)) != string(encode(spec)) {
			out.Drifted = append(out.Drifted, name)
		}
		out.Groups = append(out.Groups, one)
	}
	return out, nil
}

// ListDeployments implements DeploymentService.
func (d deploymentServer) ListDeployments(ctx context.Context, _ *apiv1.ListDeploymentsRequest) (*apiv1.ListDeploymentsResponse, error) {
	defer d.s.mu.Unlock()
	if err := d.s.enter(ctx, "ListDeployments"); err != nil {
		return nil, err
	}
	out := &apiv1.ListDeploymentsResponse{Unreadable: d.s.deployments.unreadable}
	for _, name := range slices.Sorted(maps.Keys(d.s.deployments.records)) {
		record := d.s.deployments.records[name]
		record.Versions = record.Versions[len(record.Versions)-1:]
		out.Deployments = append(out.Deployments, wireDeployment(record))
	}
	return out, nil
}

// DeleteDeployment implements DeploymentService.
func (d deploymentServer) DeleteDeployment(ctx context.Context, r *apiv1.DeleteDeploymentRequest) (*apiv1.DeleteDeploymentResponse, error) {
	defer d.s.mu.Unlock()
	if err := d.s.enter(ctx, "DeleteDeployment"); err != nil {
		return nil, err
	}
	record, ok := d.s.deployments.records[r.GetName()]
	if !ok {
		return nil, status.Error(codes.NotFound, "no such deployment: "+r.GetName())
	}
	present, _ := record.Present()
	out := &apiv1.DeleteDeploymentResponse{Groups: present.Names()}
	for _, name := range present.Names() {
		for _, ordinal := range d.s.groups[name].Spec.Ordinals() {
			out.Slots = append(out.Slots, group.SlotName(name, ordinal))
		}
		switch {
		case r.GetDryRun():
		case d.s.deployments.begun != nil:
			d.s.groups[name].Deleting = true
		default:
			delete(d.s.groups, name)
		}
	}
	if !r.GetDryRun() {
		if d.s.deployments.begun != nil {
			close(d.s.deployments.begun)
		}
		delete(d.s.deployments.records, r.GetName())
		d.s.wakeLocked()
	}
	return out, nil
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
