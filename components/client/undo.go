package client

import (
	"context"

	"cadre.dev/core/group"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Undo is what a group's spec becomes when it goes back to a Revision before.
type Undo struct {
	Spec group.Spec `json:"spec"`
	// Index of the spec that it was made from: applying it with another one is refused.
	Index    uint64   `json:"index"`
	From     string   `json:"from_revision"`
	To       string   `json:"to_revision"`
	Warnings []string `json:"warnings,omitempty"`
}

// ProposeUndo says what going back means; empty revision: to the last one that was proven
// before the present target. Nothing is written: apply the Spec to do it.
func (c *Client) ProposeUndo(ctx context.Context, name, revision string) (Undo, error) {
	doing := "undo the rollout of " + name
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewControlServiceClient(c.conn).ProposeUndo(ctx, &apiv1.ProposeUndoRequest{Group: name, Revision: revision})
	if err != nil {
		return Undo{}, c.wrap(doing, err)
	}
	out := Undo{Index: r.GetSpecIndex(), From: r.GetFromRevision(), To: r.GetToRevision(), Warnings: r.GetWarnings()}
	// It is written back, so a field that this program does not know must not get lost.
	if out.Spec, err = group.Decode(r.GetSpecJson()); err != nil {
		return Undo{}, &Error{Kind: Internal, Doing: doing, Message: "the coordinator's spec cannot be read: " + err.Error(), Hint: "use a program of the coordinators' version"}
	}
	return out, nil
}
