package attest

import "context"

// Evidence is the proof that a Boot presents about itself. All of it is untrusted until
// Verifier.Verify has accepted it.
type Evidence struct {
	// Quote is the raw TDX quote, with or without trailing zero padding.
	Quote []byte
	// EventLog is the JSON text exactly as the guest agent gave it.
	EventLog string
	// AppCompose is the preimage of the measured compose hash: the raw bytes of
	// app-compose.json.
	AppCompose []byte
	// Collateral is a collateral.Bundle for the quote's machine, if the other side sent it. It is
	// as untrusted as the rest: only its signatures count.
	Collateral []byte
	// VMConfig is the JSON text that the guest agent has from the host. It proves nothing;
	// dstack-verifier computes the image's expected measurements from it.
	VMConfig string
}

// Info is the guest agent's description of its own CVM. It is unsigned: fit to fill in a claim,
// never to check one.
type Info struct {
	// AppID, 40 lower-case hex characters.
	AppID string
	// InstanceID, 40 lower-case hex characters; empty with no_instance_id.
	InstanceID string
	// ComposeHash, 64 lower-case hex characters.
	ComposeHash string
	AppName     string
	// OSImageHash is copied from the host's vm_config; it is not the measured event.
	OSImageHash string
	AppCompose  []byte
}

// Guest is the guest agent of this CVM. Implementations are safe for concurrent
// use; ctx bounds each call.
type Guest interface {
	// GetQuote quotes reportData, which must be 64 bytes or fewer; shorter data is
	// padded with zeros on the right. AppCompose is filled from Info.
	GetQuote(ctx context.Context, reportData []byte) (Evidence, error)
	// GetKey returns the 32 bytes for path. They are the same on every instance of
	// the app; purpose changes only the signature that comes with the key.
	GetKey(ctx context.Context, path, purpose string) ([]byte, error)
	// Info describes the CVM. It does not change during a Boot.
	Info(ctx context.Context) (Info, error)
}
