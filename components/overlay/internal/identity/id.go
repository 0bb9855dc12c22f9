package identity

import (
	"errors"
	"fmt"
	"strings"
)

// Bounds of the identity grammar. A SPIFFE ID may be 2048 bytes long; ours are
// names of three short labels, so anything longer is refused before parsing.
const (
	MaxLabel   = 63
	MaxCluster = 253
	maxURI     = len(scheme) + MaxCluster + 2*(MaxLabel+1)
	scheme     = "spiffe://"
)

// ErrInvalidID reports a name outside the grammar of [ParseID].
var ErrInvalidID = errors.New("invalid overlay identity")

// ID names a Slot of a cluster: the identity of a Peer on any machine. The zero ID names
// no Slot.
type ID struct {
	// Cluster is the trust domain.
	Cluster string
	// Group is the Slot's Group, "coordinator" for coordinators.
	Group string
	// Slot is the Slot's name, unique in the cluster.
	Slot string
}

// String gives the SPIFFE form, spiffe://cluster/group/slot.
func (id ID) String() string {
	return scheme + id.Cluster + "/" + id.Group + "/" + id.Slot
}

// IsZero reports whether id names no Slot.
func (id ID) IsZero() bool { return id == ID{} }

// Validate checks each part of id against the grammar.
func (id ID) Validate() error {
	if len(id.Cluster) > MaxCluster {
		return fmt.Errorf("%w: cluster is %d bytes long, at most %d are allowed", ErrInvalidID, len(id.Cluster), MaxCluster)
	}
	for part := range strings.SplitSeq(id.Cluster, ".") {
		if !isLabel(part) {
			return fmt.Errorf("%w: cluster %q: want dot-separated labels of a-z, 0-9 and inner dashes", ErrInvalidID, id.Cluster)
		}
	}
	if !isLabel(id.Group) {
		return fmt.Errorf("%w: group %q: want a label of a-z, 0-9 and inner dashes", ErrInvalidID, id.Group)
	}
	if !isLabel(id.Slot) {
		return fmt.Errorf("%w: slot %q: want a label of a-z, 0-9 and inner dashes", ErrInvalidID, id.Slot)
	}
	return nil
}

// ParseID reads the SPIFFE form strictly: exactly three parts, each of the
// grammar of [ID.Validate]; no upper case, escapes, user, port, query or
// fragment. It is the inverse of [ID.String].
func ParseID(s string) (ID, error) {
	if len(s) > maxURI {
		return ID{}, fmt.Errorf("%w: %d bytes long, at most %d are allowed", ErrInvalidID, len(s), maxURI)
	}
	rest, ok := strings.CutPrefix(s, scheme)
	if !ok {
		return ID{}, fmt.Errorf("%w: %q does not begin with %s", ErrInvalidID, s, scheme)
	}
	parts := strings.Split(rest, "/")
	if len(parts) != 3 {
		return ID{}, fmt.Errorf("%w: %q: want %scluster/group/slot", ErrInvalidID, s, scheme)
	}
	id := ID{Cluster: parts[0], Group: parts[1], Slot: parts[2]}
	if err := id.Validate(); err != nil {
		return ID{}, err
	}
	return id, nil
}

// isLabel accepts a DNS label in lower case.
func isLabel(s string) bool {
	if s == "" || len(s) > MaxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
