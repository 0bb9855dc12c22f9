package ice

import "errors"

var (
	// ErrForbidden reports an address that no candidate may have (OVL-10).
	ErrForbidden = errors.New("CANDIDATE_FORBIDDEN")
	// ErrMalformed reports a candidate or credentials that are not well formed.
	ErrMalformed = errors.New("candidate malformed")
	// ErrTooMany reports more candidates than a search takes.
	ErrTooMany = errors.New("too many candidates")
	// ErrOtherSearch reports credentials that differ from those already set:
	// they belong to another search of the Peer and need one of ours.
	ErrOtherSearch = errors.New("credentials of another search")
	// ErrNoPath reports that no pair of candidates answered in time.
	ErrNoPath = errors.New("no path found")
	// ErrClosed reports use after Close.
	ErrClosed = errors.New("search closed")
)
