package world

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// control is an agent's session with a coordinator.
type control struct {
	controlv1.CoordinatorServiceClient // no other method is called

	w *World
	c *cvm
	r *worker
	p *process
}

// up is an error while the two ends are disconnected.
func (k *control) up() error {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if k.r.gone.Load() || k.c.worker != k.r || !slices.Contains(k.w.heardByLocked(k.c), k.p) {
		return status.Error(codes.Unavailable, errNoAnswer.Error())
	}
	return nil
}

func (k *control) GetDesired(ctx context.Context, req *controlv1.GetDesiredRequest, _ ...grpc.CallOption) (*controlv1.GetDesiredResponse, error) {
	if err := k.up(); err != nil {
		return nil, err
	}
	out, err := k.p.coordinator.GetDesired(ctx, k.c.slot, k.r.boot, req)
	if epoch := out.GetDesired().GetPolicyEpoch(); epoch > 0 {
		k.w.mu.Lock()
		k.r.epoch.set(epoch)
		k.w.mu.Unlock()
	}
	if out.GetDesired().GetOperation() != nil {
		k.r.point(k.w, k.c, "an order")
	}
	return out, err
}

// GetPeers returns an empty map, since there is no overlay.
func (*control) GetPeers(context.Context, *controlv1.GetPeersRequest, ...grpc.CallOption) (*controlv1.GetPeersResponse, error) {
	return &controlv1.GetPeersResponse{}, nil
}

func (k *control) Report(ctx context.Context, req *controlv1.ReportRequest, _ ...grpc.CallOption) (*controlv1.ReportResponse, error) {
	if err := k.up(); err != nil {
		return nil, err
	}
	out, err := k.p.coordinator.Report(ctx, k.c.slot, k.r.boot, req)
	if err == nil {
		k.heard(req.GetReport())
	}
	if len(req.GetReport().GetSteps()) > 0 {
		k.r.point(k.w, k.c, "a report of a step")
	}
	return out, err
}

// wake notifies a member that a coordinator has changes for it.
func (p *process) wake(slot string, r *controlv1.WakeRequest) {
	w := p.w
	w.mu.Lock()
	c := w.cvmLocked(slot)
	var to *worker
	if c != nil && slices.Contains(w.heardByLocked(c), p) {
		to = c.worker
	}
	w.mu.Unlock()
	if to != nil {
		_ = to.agent.Wake(context.Background(), p.slot, r) // the agent refuses a request of an older Term
	}
}
