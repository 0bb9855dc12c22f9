package client

import (
	"context"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Mark is how far the records had come when somebody saw them.
type Mark struct {
	Term  uint64 `json:"term"`
	State uint64 `json:"state"`
}

// Recovery is how far the cluster's records have come, and what was seen of them.
type Recovery struct {
	// Records are as they are now, Coordinator the highest that the answering coordinator
	// has seen since it began.
	Records     Mark `json:"records"`
	Coordinator Mark `json:"coordinator"`
	// Agents report to it now; Most is the highest that most of them have seen, Any the
	// highest that any has, which may be one that lies.
	Agents int  `json:"agents"`
	Most   Mark `json:"most_agents"`
	Any    Mark `json:"any_agent"`
	// Halted is why nobody leads or plans; "" while the records are as far as what was seen.
	Halted string `json:"halted,omitempty"`
	// Raised is what the next Term and state are above, or would be; Done: it was written.
	Raised Mark `json:"raised"`
	Done   bool `json:"done"`
}

// Recover lets the cluster go on from records that went back, and tells what is known of
// them; with dryRun it tells only. Where nothing is halted nothing is written.
func (c *Client) Recover(ctx context.Context, reason string, dryRun bool) (Recovery, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewRecoveryServiceClient(c.conn).Recover(ctx, &apiv1.RecoverRequest{Reason: reason, DryRun: dryRun})
	if err != nil {
		return Recovery{}, c.wrap("recover "+c.ctx.Cluster, err)
	}
	return Recovery{
		Records:     Mark{r.GetTerm(), r.GetState()},
		Coordinator: Mark{r.GetSeenTerm(), r.GetSeenState()},
		Agents:      int(r.GetAgents()),
		Most:        Mark{r.GetMostTerm(), r.GetMostState()},
		Any:         Mark{r.GetAnyTerm(), r.GetAnyState()},
		Halted:      r.GetHalted(),
		Raised:      Mark{r.GetRaisedTerm(), r.GetRaisedState()},
		Done:        r.GetRaised(),
	}, nil
}
