package store

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"
)

// OperatorToken is the record at operators/<sha256>: an operator's token that a coordinator
// created. The coordinators' trust file or the record of an operator names its digest. The token is
// created in Consul once, at its first use, so that a deleted token stays deleted. An unreadable
// record counts as created.
type OperatorToken struct {
	// SHA256 of the token, 64 lower-case hex digits.
	SHA256 string `json:"sha256"`
	// Made: it was in Consul. Until then only By creates it, since At.
	Made bool      `json:"made"`
	By   string    `json:"by"`
	At   time.Time `json:"at"`
}

// FirstOperator is the name of the operator whose token the coordinators' trust file names. No
// record has this name.
const FirstOperator = "first"

// Bounds of operators. Consul's tokens live for at least a minute.
const (
	MaxOperators      = 200
	MaxOperatorGroups = 100
	MinOperatorLife   = 10 * time.Minute
	MaxOperatorLife   = 366 * 24 * time.Hour
)

// OperatorRecord is the record at control/operators/<name>: an operator with a token of its own.
// The record has the digest of the token, and never the token. The token works from its first use
// until Expires, and ends with the record.
type OperatorRecord struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
	// Groups of an operate role; empty: all groups.
	Groups []string `json:"groups,omitempty"`
	// SHA256 of the token, 64 lower-case hex digits.
	SHA256  string    `json:"sha256"`
	Expires time.Time `json:"expires"`
	// Next and NextExpires belong to the token of a rotation. Its first use replaces the present
	// one. Empty: there is no rotation.
	Next        string    `json:"next_sha256,omitempty"`
	NextExpires time.Time `json:"next_expires,omitzero"`
	By          string    `json:"by"`
	At          time.Time `json:"at"`
}

// Check returns the first fault of the record, by field.
func (r OperatorRecord) Check() error {
	switch {
	case !nameGrammar.MatchString(r.Name):
		return fmt.Errorf("name: %.80q is not a name: lower-case letters, digits and '-', from a letter, at most 63 bytes", r.Name)
	case r.Name == FirstOperator:
		return fmt.Errorf("name: %s is the operator of the coordinators' trust file; choose another name", FirstOperator)
	case !slices.Contains(Roles, r.Role):
		return fmt.Errorf("role: %.80q is unknown: use view, operate, approve or admin", string(r.Role))
	case len(r.Groups) > 0 && r.Role != RoleOperate:
		return fmt.Errorf("groups: the role %s covers all groups; only operate can be limited to some", r.Role)
	case len(r.Groups) > MaxOperatorGroups:
		return fmt.Errorf("groups: %d of them, at most %d; leave groups out to cover all", len(r.Groups), MaxOperatorGroups)
	case !sha256Grammar.MatchString(r.SHA256):
		return errors.New("sha256: is not a digest: 64 lower-case hex digits")
	case r.Expires.IsZero():
		return errors.New("expires: is missing: every operator's token ends")
	case (r.Next == "") != r.NextExpires.IsZero():
		return errors.New("next_sha256, next_expires: set both or none")
	case r.Next != "" && (!sha256Grammar.MatchString(r.Next) || r.Next == r.SHA256):
		return errors.New("next_sha256: is not a digest of another token: 64 lower-case hex digits")
	}
	for _, g := range r.Groups {
		if !nameGrammar.MatchString(g) {
			return fmt.Errorf("groups: %.80q is not the name of a group", g)
		}
	}
	return nil
}

// Named returns the end of the record's token with this digest; false: the record names no such
// token.
func (r OperatorRecord) Named(sha256 string) (expires time.Time, ok bool) {
	switch sha256 {
	case "":
		return time.Time{}, false
	case r.SHA256:
		return r.Expires, true
	case r.Next:
		return r.NextExpires, true
	}
	return time.Time{}, false
}

// Accessors returns the accessors of the record's tokens.
func (r OperatorRecord) Accessors() []string {
	out := []string{OperatorAccessor(r.SHA256)}
	if r.Next != "" {
		out = append(out, OperatorAccessor(r.Next))
	}
	return out
}

// OperatorAccessor returns the accessor in Consul of the operator's token with this digest, a UUID.
// It follows from the digest, so every coordinator can delete the token, and no two coordinators
// create it twice.
func OperatorAccessor(digest string) string {
	sum := sha256.Sum256([]byte("cadre operator accessor " + digest))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
