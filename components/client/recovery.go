package client

import (
	"context"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Watermark is a watermark of the records: the Term and state that an observer has seen.
type Watermark struct {
	Term  uint64 `json:"term"`
	State uint64 `json:"state"`
}

// Recovery has the watermarks of the cluster's records and of their observers.
type Recovery struct {
	// Records are the current watermark, and Coordinator the highest that the answering coordinator
	// has seen since its start.
	Records     Watermark `json:"records"`
	Coordinator Watermark `json:"coordinator"`
	// Agents is the number of agents that report to the coordinator now. Most is the highest
	// watermark that most of them have seen, and Any the highest that any reports, which may be a
	// lie.
	Agents int       `json:"agents"`
	Most   Watermark `json:"most_agents"`
	Any    Watermark `json:"any_agent"`
	// Halted is the reason why no coordinator leads or plans; "" while the records are as far as
	// the highest watermark.
	Halted string `json:"halted,omitempty"`
	// Raised is the lower bound of the next Term and state; Done: the bound was written.
	Raised Watermark `json:"raised"`
	Done   bool      `json:"done"`
}

// Recover accepts records that went back, and returns the watermarks; with dryRun it changes
// nothing. It writes only if the cluster is halted.
func (c *Client) Recover(ctx context.Context, reason string, dryRun bool) (Recovery, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewRecoveryServiceClient(c.conn).Recover(ctx, &apiv1.RecoverRequest{Reason: reason, DryRun: dryRun})
	if err != nil {
		return Recovery{}, c.wrap("recover "+c.ctx.Cluster, err)
	}
	return Recovery{
		Records:     Watermark{r.GetTerm(), r.GetState()},
		Coordinator: Watermark{r.GetSeenTerm(), r.GetSeenState()},
		Agents:      int(r.GetAgents()),
		Most:        Watermark{r.GetMostTerm(), r.GetMostState()},
		Any:         Watermark{r.GetAnyTerm(), r.GetAnyState()},
		Halted:      r.GetHalted(),
		Raised:      Watermark{r.GetRaisedTerm(), r.GetRaisedState()},
		Done:        r.GetRaised(),
	}, nil
}
