package group

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SecretFormat is how the random bytes of a secret are written into its file.
type SecretFormat string

const (
	// SecretHex is lower-case hex digits without a line end. The default.
	SecretHex SecretFormat = "hex"
	// SecretBase64 is standard base64 without a line end.
	SecretBase64 SecretFormat = "base64"
	// SecretRaw is the bytes as they are.
	SecretRaw SecretFormat = "raw"
)

// SecretSource is where the value of a secret comes from.
type SecretSource string

const (
	// SecretGenerated is a random value that coordinators derive. The default, which normalization
	// writes as "".
	SecretGenerated SecretSource = "generated"
	// SecretOperator is a value that an operator seals to the coordinators: `cadre secret set`.
	SecretOperator SecretSource = "operator"
)

// RotateManual: the secret gets a new value only when an operator asks for it.
const RotateManual = "manual"

// Secret declares a secret of the group, equal on all its Slots and never written into a spec: random
// and made inside the coordinators, or sealed by an operator. It is not part of the Revision: a new
// value is no rollout.
type Secret struct {
	// Name is the file's name below /run/mesh/secrets.
	Name string `json:"name"`
	// Source is "generated", also the default, or "operator".
	Source SecretSource `json:"source,omitempty"`
	// Bytes of randomness, 16..64; default 24. Only for a generated secret.
	Bytes int `json:"bytes,omitempty"`
	// Format of the file's content. Only for a generated secret.
	Format SecretFormat `json:"format,omitempty"`
	// Owner of the file as "uid" or "uid:gid"; default "0:0". A gid that is left out
	// is the uid.
	Owner string `json:"owner,omitempty"`
	// Mode of the file in octal, 0400 to 0660, never readable by all; default "0600".
	Mode string `json:"mode,omitempty"`
	// Rotate is "manual", also the default, or how long a value is used, at least 1h. Only for a
	// generated secret.
	Rotate string `json:"rotate,omitempty"`
	// PoolerRoutes are routes of other groups whose pooler, in this group's CVMs, may log in
	// with the secret as password. Without it, no other group's spec can have the secret sent
	// anywhere.
	PoolerRoutes []string `json:"pooler_routes,omitempty"`
}

// Bounds and defaults of a secret.
const (
	DefaultSecretBytes = 24
	minSecretBytes     = 16
	maxSecretBytes     = 64
	defaultSecretMode  = "0600"
	defaultSecretOwner = "0:0"
	maxSecrets         = 32
	// MaxSealedBytes bounds the value that an operator seals, and MaxSealedGroupBytes all such values
	// of a group: each Boot of the group gets all of them in one message.
	MaxSealedBytes      = 64 << 10
	MaxSealedGroupBytes = 256 << 10
	minRotate           = time.Hour
	maxRotate           = 5 * 365 * 24 * time.Hour
)

// SealedProblem is the fault of an operator's value of n bytes, as the rest of a sentence about it; "": none.
func SealedProblem(n int) string {
	switch {
	case n == 0:
		return "is empty: a secret has at least one byte"
	case n > MaxSealedBytes:
		return fmt.Sprintf("has more than %d KiB: a secret has at most that", MaxSealedBytes>>10)
	}
	return ""
}

func (s *Secret) normalize() {
	fill(&s.Owner, defaultSecretOwner)
	fill(&s.Mode, defaultSecretMode)
	if s.Sealed() {
		return
	}
	if s.Source == SecretGenerated {
		s.Source = "" // the form that coordinators of every version read
	}
	fill(&s.Bytes, DefaultSecretBytes)
	fill(&s.Format, SecretHex)
	fill(&s.Rotate, RotateManual)
}

// Sealed reports whether an operator seals the value.
func (s Secret) Sealed() bool { return s.Source == SecretOperator }

// AllSecrets returns the secrets that every Slot of the group gets, sorted by name: the declared
// secrets, and the secrets that the workload's kind implies. A declaration overrides an implied
// secret. Implied secrets have no Owner and Mode: the agent gives such a file to its own mesh
// group.
func (s Spec) AllSecrets() []Secret {
	out := slices.Clone(s.Secrets)
	for i := range out {
		out[i].normalize()
	}
	for _, name := range s.Workload.traits().secrets {
		if !slices.ContainsFunc(out, func(d Secret) bool { return d.Name == name }) {
			out = append(out, Secret{Name: name, Bytes: DefaultSecretBytes, Format: SecretHex, Rotate: RotateManual})
		}
	}
	slices.SortFunc(out, func(a, b Secret) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Secret returns the secret of AllSecrets with this name; ok is false if there is none.
func (s Spec) Secret(name string) (one Secret, ok bool) {
	for _, one := range s.AllSecrets() {
		if one.Name == name {
			return one, true
		}
	}
	return Secret{}, false
}

// FileOwner reads Owner; ok is false when it is not "uid" or "uid:gid".
func (s Secret) FileOwner() (uid, gid uint32, ok bool) {
	user, groupText, both := strings.Cut(s.Owner, ":")
	u, err := strconv.ParseUint(user, 10, 31)
	if err != nil || !plainNumber(user) {
		return 0, 0, false
	}
	if !both {
		return uint32(u), uint32(u), true
	}
	g, err := strconv.ParseUint(groupText, 10, 31)
	if err != nil || !plainNumber(groupText) {
		return 0, 0, false
	}
	return uint32(u), uint32(g), true
}

// FileMode reads Mode; ok is false when it is not a mode that a secret may have:
// readable by the owner, perhaps by the group, never by all, never executable.
func (s Secret) FileMode() (mode uint32, ok bool) {
	if len(s.Mode) < 3 || len(s.Mode) > 4 {
		return 0, false
	}
	m, err := strconv.ParseUint(s.Mode, 8, 12)
	if err != nil || m&^0o660 != 0 || m&0o400 == 0 {
		return 0, false
	}
	return uint32(m), true
}

// Every is how long a value is used; 0: until an operator rotates it. ok is false
// when Rotate is neither.
func (s Secret) Every() (every time.Duration, ok bool) {
	if s.Rotate == RotateManual || s.Rotate == "" {
		return 0, true
	}
	d, err := time.ParseDuration(s.Rotate)
	if err != nil || d < minRotate || d > maxRotate {
		return 0, false
	}
	return d, true
}

// plainNumber accepts digits without leading zeros, and rejects the other texts that ParseUint
// would take.
func plainNumber(text string) bool {
	return text == "0" || text != "" && text[0] >= '1' && text[0] <= '9'
}
