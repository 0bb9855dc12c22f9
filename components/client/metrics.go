package client

import (
	"context"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// MaxMetricsSlots is the number of agents that one call of AgentMetrics asks at most.
const MaxMetricsSlots = 16

// Metrics are the figures of one process, in Prometheus' text exposition format. An agent's text is
// unchecked. Without a Text, Error has the reason.
type Metrics struct {
	Slot  string
	Text  []byte
	Error string
}

// CoordinatorMetrics returns the figures of the coordinator that answers, and the slots whose agents
// are connected to it.
func (c *Client) CoordinatorMetrics(ctx context.Context) (own Metrics, connected []string, err error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewMetricsServiceClient(c.conn).GetMetrics(ctx, &apiv1.GetMetricsRequest{})
	if err != nil {
		return Metrics{}, nil, c.wrap("get figures", err)
	}
	own = Metrics{Slot: r.GetSlot()}
	for _, n := range r.GetNodes() {
		own.Text, own.Error = n.GetText(), n.GetError()
	}
	return own, r.GetConnected(), nil
}

// AgentMetrics returns the figures of at most MaxMetricsSlots agents that are connected to the
// coordinator that answers.
func (c *Client) AgentMetrics(ctx context.Context, slots []string) ([]Metrics, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewMetricsServiceClient(c.conn).GetMetrics(ctx, &apiv1.GetMetricsRequest{Slots: slots})
	if err != nil {
		return nil, c.wrap("get figures of agents", err)
	}
	out := make([]Metrics, 0, len(r.GetNodes()))
	for _, n := range r.GetNodes() {
		out = append(out, Metrics{Slot: n.GetSlot(), Text: n.GetText(), Error: n.GetError()})
	}
	return out, nil
}
