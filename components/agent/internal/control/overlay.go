package control

import (
	"context"

	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// The overlay calls are for coordinators alone: Serve runs no other session.

// OverlayStatus implements AgentService.
func (w *wakeServer) OverlayStatus(ctx context.Context, r *controlv1.OverlayStatusRequest) (*controlv1.OverlayStatusResponse, error) {
	return w.hub.cfg.Overlay.OverlayStatus(ctx, r)
}

// OverlayPing implements AgentService.
func (w *wakeServer) OverlayPing(ctx context.Context, r *controlv1.OverlayPingRequest) (*controlv1.OverlayPingResponse, error) {
	return w.hub.cfg.Overlay.OverlayPing(ctx, r)
}

// OverlayAllowBench implements AgentService.
func (w *wakeServer) OverlayAllowBench(ctx context.Context, r *controlv1.OverlayAllowBenchRequest) (*controlv1.OverlayAllowBenchResponse, error) {
	return w.hub.cfg.Overlay.OverlayAllowBench(ctx, r)
}

// OverlayBench implements AgentService.
func (w *wakeServer) OverlayBench(ctx context.Context, r *controlv1.OverlayBenchRequest) (*controlv1.OverlayBenchResponse, error) {
	return w.hub.cfg.Overlay.OverlayBench(ctx, r)
}
