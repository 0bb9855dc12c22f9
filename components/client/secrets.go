package client

import (
	"context"
	"time"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Secret has the public properties of a secret, and never its value.
type Secret struct {
	// Group is "cluster" for the cluster's own keys.
	Group string `json:"group"`
	Name  string `json:"name"`
	// Epoch in force; 0 while the leader has not recorded one.
	Epoch     uint32    `json:"epoch"`
	RotatedAt time.Time `json:"rotated_at,omitzero"`
	Reason    string    `json:"reason,omitempty"`
	By        string    `json:"by,omitempty"`
	Owner     string    `json:"owner,omitempty"`
	Mode      string    `json:"mode,omitempty"`
	// NextRotation is zero for rotation on request only.
	NextRotation time.Time `json:"next_rotation,omitzero"`
	// Step of a rotation in progress.
	Step string `json:"step,omitempty"`
	// Requested: a rotation was requested and has not begun.
	Requested bool `json:"requested,omitempty"`
	// Delivered is how many of the Connected Slots have the epoch in force.
	Delivered uint32 `json:"delivered"`
	Connected uint32 `json:"connected"`
	// Ahead is how many of the Connected Slots have a later epoch than the record, which went back.
	Ahead uint32 `json:"ahead,omitempty"`
	// Source is "operator" for a value that operators seal; "": coordinators derive the value.
	Source string `json:"source,omitempty"`
	// NoValue: an operator has yet to give the value, so no Boot is admitted.
	NoValue bool `json:"no_value,omitempty"`
}

// Secrets lists the secrets of a group; of all groups and the cluster when it is "".
func (c *Client) Secrets(ctx context.Context, group string) ([]Secret, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.api.ListSecrets(ctx, &apiv1.ListSecretsRequest{Group: group})
	if err != nil {
		return nil, c.wrap("list secrets", err)
	}
	out := []Secret{}
	for _, s := range r.GetSecrets() {
		one := Secret{
			Group: s.GetGroup(), Name: s.GetName(), Epoch: s.GetEpoch(), Reason: s.GetReason(), By: s.GetBy(), Owner: s.GetOwner(), Mode: s.GetMode(),
			Step: s.GetStep(), Requested: s.GetRequested(), Delivered: s.GetDelivered(), Connected: s.GetConnected(), Source: s.GetSource(), Ahead: s.GetAhead(), NoValue: s.GetNoValue(),
		}
		if s.GetRotatedAt() != nil {
			one.RotatedAt = s.GetRotatedAt().AsTime()
		}
		if s.GetNextRotation() != nil {
			one.NextRotation = s.GetNextRotation().AsTime()
		}
		out = append(out, one)
	}
	return out, nil
}

// RotateSecret requests a new epoch of a secret and returns the one in force now.
func (c *Client) RotateSecret(ctx context.Context, group, name, reason string) (uint32, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := c.api.RotateSecret(ctx, &apiv1.RotateSecretRequest{Group: group, Name: name, Reason: reason})
	return r.GetEpoch(), c.wrap("rotate "+group+"/"+name, err)
}
