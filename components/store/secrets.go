package store

import "time"

// The cluster's own keys among the secrets.
const (
	// ClusterSecrets stands for the cluster where a secret's group is named. No group
	// of this name may declare secrets.
	ClusterSecrets = "cluster"
	// GossipSecret is Consul's gossip key.
	GossipSecret = "gossip"
)

// RotationStep is how far the rotation of the gossip key got. Each step can be
// repeated, so that a successor goes on from what is recorded.
type RotationStep string

const (
	// RotationRest: no rotation is going on.
	RotationRest RotationStep = ""
	// RotationInstall: coordinators are given Next, and send with Epoch.
	RotationInstall RotationStep = "install"
	// RotationUse: coordinators begin to send with Next; all of them can read both.
	RotationUse RotationStep = "use"
	// RotationSettle: Epoch is the new one. A coordinator that is away learns it from the
	// others, so nobody is waited for.
	RotationSettle RotationStep = "settle"
	// RotationRemove: coordinators forget Previous.
	RotationRemove RotationStep = "remove"
)

// SecretRecord says which epoch of a secret is in force.
type SecretRecord struct {
	// Group is ClusterSecrets for the cluster's own keys.
	Group string `json:"group"`
	Name  string `json:"name"`
	// Epoch in force. It only grows.
	Epoch     uint32    `json:"epoch"`
	RotatedAt time.Time `json:"rotated_at"`
	// Reason for the last rotation, and who asked for it.
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`

	// Step of a rotation that is going on; StepSince is when it began.
	Step      RotationStep `json:"step,omitempty"`
	StepSince time.Time    `json:"step_since,omitzero"`
	// Next is the epoch that is coming, until it is in force.
	Next uint32 `json:"next,omitempty"`
	// Previous still works until it is removed. PreviousUntil was its latest time in
	// records of earlier versions.
	Previous      uint32    `json:"previous,omitempty"`
	PreviousUntil time.Time `json:"previous_until,omitzero"`
}

// RotateRequest asks for a new epoch of a secret.
type RotateRequest struct {
	Group  string    `json:"group"`
	Name   string    `json:"name"`
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}
