package punch

import (
	"errors"

	"cadre.dev/overlay/internal/ice"
)

var (
	// ErrNoConnection reports that no connection came to stand in time.
	ErrNoConnection = errors.New("no direct connection")
	// ErrNoCandidates reports that this side has no candidate to offer, or that none of
	// the Peer's candidates may be or can be dialled.
	ErrNoCandidates = errors.New("no usable candidate")
	// ErrCandidateForbidden reports an address that no Peer may name (OVL-09, OVL-10).
	ErrCandidateForbidden = ice.ErrForbidden
	// ErrGarbage reports bytes that the protocol before TLS does not know.
	ErrGarbage = errors.New("unexpected bytes before the pick")
	// ErrBusy reports a second Connect while one runs.
	ErrBusy = errors.New("already connecting")
	// ErrClosed reports the use of a closed Local.
	ErrClosed = errors.New("local end closed")
)
