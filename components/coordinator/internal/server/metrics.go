package server

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/peering"
	"cadre.dev/core/group"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

const (
	// maxMetricsSlots bounds the agents of one call, and with them its answer.
	maxMetricsSlots = 16
	// maxMetricsText bounds the figures of one process.
	maxMetricsText = 256 << 10
	// maxMetricsAsked bounds the agents that all calls ask at the same time.
	maxMetricsAsked = 16
	// metricsTime bounds a call: an agent that does not answer by then has an error in the answer.
	metricsTime = 10 * time.Second
)

// Metrics gives the figures of this coordinator and of its agents. All fields are required.
type Metrics struct {
	// Gather returns the coordinator's own figures.
	Gather func() ([]*dto.MetricFamily, error)
	// Connected returns the Slots whose agents Agent can ask, sorted.
	Connected func() []string
	// Agent returns the figures of a Slot's agent, unchecked and of bounded size.
	Agent func(ctx context.Context, slot string) ([]byte, error)
}

// metricsServer serves MetricsService.
type metricsServer struct {
	apiv1.UnimplementedMetricsServiceServer
	s *Server
	// asked bounds the agents asked at the same time.
	asked chan struct{}
}

func newMetricsServer(s *Server) *metricsServer {
	return &metricsServer{s: s, asked: make(chan struct{}, maxMetricsAsked)}
}

// GetMetrics implements MetricsService.
func (m *metricsServer) GetMetrics(ctx context.Context, req *apiv1.GetMetricsRequest) (*apiv1.GetMetricsResponse, error) {
	c, err := m.s.caller(ctx)
	if err != nil {
		return nil, err
	}
	if n := len(req.GetSlots()); n > maxMetricsSlots {
		return nil, status.Errorf(codes.InvalidArgument, "slots: %d slots, at most %d in one call", n, maxMetricsSlots)
	}
	ctx, cancel := context.WithTimeout(ctx, metricsTime)
	defer cancel()
	sees := groupReader{caller: c, readable: map[string]bool{peering.CoordinatorGroup: true}}
	if len(req.GetSlots()) > 0 {
		return m.agents(ctx, &sees, req.GetSlots())
	}
	// As for GetCluster, any read right on Cadre's records is enough. Figures are filtered by group.
	if _, _, err := c.store.Holder(ctx); err != nil {
		return nil, wire(err)
	}
	own, err := m.own(ctx, &sees)
	if err != nil {
		return nil, err
	}
	out := &apiv1.GetMetricsResponse{Slot: m.s.cfg.Slot, Nodes: []*apiv1.NodeMetrics{own}}
	for _, slot := range m.s.cfg.Metrics.Connected() {
		may, err := sees.slot(ctx, slot)
		if err != nil {
			return nil, err
		}
		if may && !isCoordinator(slot) {
			out.Connected = append(out.Connected, slot)
		}
	}
	return out, nil
}

// own returns the coordinator's figures without those of groups that the caller may not read.
func (m *metricsServer) own(ctx context.Context, sees *groupReader) (*apiv1.NodeMetrics, error) {
	out := &apiv1.NodeMetrics{Slot: m.s.cfg.Slot}
	families, err := m.s.cfg.Metrics.Gather()
	if err != nil && len(families) == 0 {
		out.Error = "METRICS_ABSENT: " + err.Error()
		return out, nil
	}
	var text bytes.Buffer
	encoder := expfmt.NewEncoder(&text, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, family := range families {
		shown := &dto.MetricFamily{Name: family.Name, Help: family.Help, Type: family.Type, Unit: family.Unit}
		for _, one := range family.GetMetric() {
			may, err := sees.metric(ctx, one)
			if err != nil {
				return nil, err
			}
			if may {
				shown.Metric = append(shown.Metric, one)
			}
		}
		if len(shown.GetMetric()) == 0 {
			continue
		}
		if err := encoder.Encode(shown); err != nil {
			return nil, status.Errorf(codes.Internal, "METRICS_ABSENT: %s: %v", family.GetName(), err)
		}
		if text.Len() > maxMetricsText {
			out.Error = "METRICS_TOO_LARGE: the figures of the coordinator are larger than an answer; http://127.0.0.1:7070/metrics of the CVM serves them"
			return out, nil
		}
	}
	out.Text = text.Bytes()
	return out, nil
}

// agents asks the agents of slots, all of which the caller may read.
func (m *metricsServer) agents(ctx context.Context, sees *groupReader, slots []string) (*apiv1.GetMetricsResponse, error) {
	for _, slot := range slots {
		may, err := sees.slot(ctx, slot)
		switch {
		case err != nil:
			return nil, err
		case isCoordinator(slot):
			return nil, status.Errorf(codes.InvalidArgument, "slots: %.100q is a coordinator, which reports its own figures only: leave slots empty", slot)
		case !may:
			return nil, status.Errorf(codes.PermissionDenied, "slots: the figures of %.100q need the right to read its group", slot)
		}
	}
	out := &apiv1.GetMetricsResponse{Slot: m.s.cfg.Slot, Nodes: make([]*apiv1.NodeMetrics, len(slots))}
	var asking sync.WaitGroup
	for i, slot := range slots {
		asking.Go(func() {
			out.Nodes[i] = &apiv1.NodeMetrics{Slot: slot}
			text, err := m.ask(ctx, slot)
			switch {
			case err != nil:
				out.Nodes[i].Error = status.Convert(err).Message()
			case len(text) > maxMetricsText:
				out.Nodes[i].Error = "METRICS_TOO_LARGE: the agent's figures are larger than an answer"
			default:
				out.Nodes[i].Text = text
			}
		})
	}
	asking.Wait()
	return out, nil
}

// ask asks one agent once a place is free.
func (m *metricsServer) ask(ctx context.Context, slot string) (text []byte, err error) {
	select {
	case m.asked <- struct{}{}:
		defer func() { <-m.asked }()
	case <-ctx.Done():
		return nil, status.Error(codes.ResourceExhausted, "METRICS_BUSY: the coordinator asks too many agents already")
	}
	// The goroutine is the handler's own, so a panic in it is not contained by the server.
	err = m.s.cfg.Panics.In("api")(func() error {
		text, err = m.s.cfg.Metrics.Agent(ctx, slot)
		return err
	})
	return text, err
}

// groupReader remembers for one call which groups Consul lets the caller read. Not safe for
// concurrent use.
type groupReader struct {
	caller   *caller
	readable map[string]bool
}

// group reports whether the caller may read a group.
func (g *groupReader) group(ctx context.Context, name string) (bool, error) {
	if may, known := g.readable[name]; known {
		return may, nil
	}
	_, err := g.caller.store.Get(ctx, store.GroupSpecKey(name))
	switch {
	case err == nil, errors.Is(err, store.ErrNotFound):
		g.readable[name] = true
	case errors.Is(err, store.ErrDenied), errors.Is(err, store.ErrBadKey):
		g.readable[name] = false
	default:
		return false, wire(err)
	}
	return g.readable[name], nil
}

// slot reports whether the caller may read the group of a Slot; false for a text that names none.
func (g *groupReader) slot(ctx context.Context, slot string) (bool, error) {
	name, _, err := group.ParseSlot(slot)
	if err != nil {
		return false, nil //nolint:nilerr // no caller may read a slot that cannot exist
	}
	return g.group(ctx, name)
}

// metric reports whether the caller may read the group that the metric's labels name, if any.
func (g *groupReader) metric(ctx context.Context, m *dto.Metric) (bool, error) {
	may := true
	for _, label := range m.GetLabel() {
		var err error
		switch {
		case !may:
			return false, nil
		case label.GetName() == "group":
			may, err = g.group(ctx, label.GetValue())
		case slices.Contains([]string{"peer", "slot"}, label.GetName()):
			may, err = g.slot(ctx, label.GetValue())
		}
		if err != nil {
			return false, err
		}
	}
	return may, nil
}
