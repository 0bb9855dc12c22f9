package clienttest

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// SetMetrics sets the figures of coordinator-0, and those of the connected agents by slot. An agent
// whose text is "" does not answer.
func (s *Server) SetMetrics(own string, agents map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metrics, s.agentMetrics = own, agents
}

// metricsServer implements MetricsService.
type metricsServer struct {
	apiv1.UnimplementedMetricsServiceServer
	s *Server
}

// GetMetrics implements MetricsService.
func (m metricsServer) GetMetrics(ctx context.Context, r *apiv1.GetMetricsRequest) (*apiv1.GetMetricsResponse, error) {
	s := m.s
	defer s.mu.Unlock()
	if err := s.enter(ctx, "GetMetrics"); err != nil {
		return nil, err
	}
	out := &apiv1.GetMetricsResponse{Slot: "coordinator-0"}
	if len(r.GetSlots()) > 16 {
		return nil, status.Error(codes.InvalidArgument, "slots: at most 16 in one call")
	}
	if len(r.GetSlots()) == 0 {
		out.Connected = slices.Sorted(maps.Keys(s.agentMetrics))
		out.Nodes = []*apiv1.NodeMetrics{{Slot: out.GetSlot(), Text: []byte(s.metrics)}}
		return out, nil
	}
	for _, slot := range r.GetSlots() {
		n := &apiv1.NodeMetrics{Slot: slot, Text: []byte(s.agentMetrics[slot])}
		if len(n.GetText()) == 0 {
			n.Error = "AGENT_SILENT: the agent of " + slot + " did not answer in time"
		}
		out.Nodes = append(out.Nodes, n)
	}
	return out, nil
}
