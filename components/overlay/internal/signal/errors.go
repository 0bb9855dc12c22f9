package signal

import "errors"

// Code names a refusal on the wire, in logs and in metrics.
type Code string

const (
	// CodeForged: an envelope that its alleged sender did not make for us.
	CodeForged Code = "SIG_FORGED"
	// CodeStaleEpoch: a genuine envelope that came too late or again.
	CodeStaleEpoch Code = "SIG_STALE_EPOCH"
	// CodeUnauthenticated: a mailbox was asked for without proof of identity.
	CodeUnauthenticated Code = "SIG_UNAUTHENTICATED"
)

var (
	// ErrForged reports an envelope that is malformed, that its alleged sender
	// did not sign, or that was not made for this Boot (OVL-01).
	ErrForged = errors.New("forged signaling message (SIG_FORGED)")
	// ErrStale reports a genuine envelope that has expired, was seen before, or has an
	// older epoch than an earlier one (OVL-03).
	ErrStale = errors.New("stale signaling message (SIG_STALE_EPOCH)")
	// ErrUnauthenticated reports a mailbox that rejected our identity, or a caller
	// without an identity (OVL-02).
	ErrUnauthenticated = errors.New("mailbox without proof of identity (SIG_UNAUTHENTICATED)")
	// ErrMessage reports a message that must not be sent: a bound of [Message]
	// is exceeded, or a key cannot be used.
	ErrMessage = errors.New("signaling message that cannot be sent")
)

// CodeOf gives the code of an error of this package, "" for any other.
func CodeOf(err error) Code {
	switch {
	case errors.Is(err, ErrForged):
		return CodeForged
	case errors.Is(err, ErrStale):
		return CodeStaleEpoch
	case errors.Is(err, ErrUnauthenticated):
		return CodeUnauthenticated
	}
	return ""
}
