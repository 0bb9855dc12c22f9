package control

import (
	"context"

	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// The mesh calls are for coordinators alone: Serve runs no other session.

// MeshStatus implements AgentService.
func (w *wakeServer) MeshStatus(ctx context.Context, r *controlv1.MeshStatusRequest) (*controlv1.MeshStatusResponse, error) {
	return w.hub.cfg.Mesh.MeshStatus(ctx, r)
}

// MeshPing implements AgentService.
func (w *wakeServer) MeshPing(ctx context.Context, r *controlv1.MeshPingRequest) (*controlv1.MeshPingResponse, error) {
	return w.hub.cfg.Mesh.MeshPing(ctx, r)
}

// MeshAllowBench implements AgentService.
func (w *wakeServer) MeshAllowBench(ctx context.Context, r *controlv1.MeshAllowBenchRequest) (*controlv1.MeshAllowBenchResponse, error) {
	return w.hub.cfg.Mesh.MeshAllowBench(ctx, r)
}

// MeshBench implements AgentService.
func (w *wakeServer) MeshBench(ctx context.Context, r *controlv1.MeshBenchRequest) (*controlv1.MeshBenchResponse, error) {
	return w.hub.cfg.Mesh.MeshBench(ctx, r)
}
