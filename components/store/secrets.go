package store

import "time"

// The cluster's own keys among the secrets.
const (
	// ClusterSecrets is the group name of the cluster's own secrets. No group of this name may
	// declare secrets.
	ClusterSecrets = "cluster"
	// GossipSecret is Consul's gossip key.
	GossipSecret = "gossip"
)

// RotationStep is the progress of a rotation of the gossip key. Each step can be repeated, so a new
// leader continues from the recorded step.
type RotationStep string

const (
	// RotationRest: no rotation is in progress.
	RotationRest RotationStep = ""
	// RotationInstall: coordinators receive Next, and still send with Epoch.
	RotationInstall RotationStep = "install"
	// RotationUse: coordinators begin to send with Next; all of them can read both.
	RotationUse RotationStep = "use"
	// RotationSettle: Epoch is the new one. An absent coordinator learns it later from the others,
	// so the rotation does not wait for it.
	RotationSettle RotationStep = "settle"
	// RotationRemove: coordinators remove Previous.
	RotationRemove RotationStep = "remove"
)

// SecretRecord has the epoch in force of a secret.
type SecretRecord struct {
	// Group is ClusterSecrets for the cluster's own keys.
	Group string `json:"group"`
	Name  string `json:"name"`
	// Epoch in force. It only grows.
	Epoch     uint32    `json:"epoch"`
	RotatedAt time.Time `json:"rotated_at"`
	// Reason for the last rotation, and its operator.
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
	// Sealed names the ciphertext of this epoch, for a secret that an operator seals; zero: the value
	// is derived, or the operator has not given one.
	Sealed SealedRef `json:"sealed,omitzero"`

	// Step of a rotation in progress; StepSince is when it began.
	Step      RotationStep `json:"step,omitempty"`
	StepSince time.Time    `json:"step_since,omitzero"`
	// Next is the coming epoch, until it is in force.
	Next uint32 `json:"next,omitempty"`
	// Previous works until it is removed. Earlier versions recorded its end in PreviousUntil.
	Previous      uint32    `json:"previous,omitempty"`
	PreviousUntil time.Time `json:"previous_until,omitzero"`
}

// SealedRef names a ciphertext.
type SealedRef struct {
	// SHA256 of the ciphertext, 64 lower-case hex digits.
	SHA256 string `json:"sha256"`
	// Bytes is the size of the value.
	Bytes int `json:"bytes"`
}

// SealedSecret is the value of an operator's secret, sealed to a key of the coordinators (core/sealed).
type SealedSecret struct {
	Group string `json:"group"`
	Name  string `json:"name"`
	// Epoch of the secret that the value is for. Its ciphertext opens for no other epoch.
	Epoch uint32 `json:"epoch"`
	// KeyEpoch of the coordinators' key.
	KeyEpoch   uint32 `json:"key_epoch"`
	Ciphertext []byte `json:"ciphertext"`
}

// SealRequest requests that a sealed value becomes the next epoch of a secret.
type SealRequest struct {
	SealedSecret
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at,omitzero"`
}

// RotateRequest requests a new epoch of a secret.
type RotateRequest struct {
	Group  string    `json:"group"`
	Name   string    `json:"name"`
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}
