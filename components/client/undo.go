package client

import (
	"context"

	"cadre.dev/core/group"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Undo is the spec of a group after going back to an earlier Revision.
type Undo struct {
	Spec group.Spec `json:"spec"`
	// Index of the spec that Spec is based on: an apply with another index is rejected.
	Index    uint64   `json:"index"`
	From     string   `json:"from_revision"`
	To       string   `json:"to_revision"`
	Warnings []string `json:"warnings,omitempty"`
}

// ProposeUndo returns the spec of an undo. An empty revision means the last proven one before the
// current target. It writes nothing: apply Spec to carry it out.
func (c *Client) ProposeUndo(ctx context.Context, name, revision string) (Undo, error) {
	doing := "undo the rollout of " + name
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewControlServiceClient(c.conn).ProposeUndo(ctx, &apiv1.ProposeUndoRequest{Group: name, Revision: revision})
	if err != nil {
		return Undo{}, c.wrap(doing, err)
	}
	out := Undo{Index: r.GetSpecIndex(), From: r.GetFromRevision(), To: r.GetToRevision(), Warnings: r.GetWarnings()}
	// The spec is written back, so an unknown field must not get lost.
	if out.Spec, err = group.Decode(r.GetSpecJson()); err != nil {
		return Undo{}, &Error{Kind: Internal, Doing: doing, Message: "the coordinator's spec cannot be read: " + err.Error(), Hint: "use a program of the coordinators' version"}
	}
	return out, nil
}
