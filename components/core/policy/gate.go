package policy

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Approval is the record at control/approvals/<revision>: an operator reviewed the content and
// allows its admission. A deleted Approval no longer counts for later Boots.
type Approval struct {
	// Revision is the last segment of the key, 32 hex digits.
	Revision string `json:"revision"`
	// ComposeHash of the reviewed content, 64 hex digits. Without one the approval counts for
	// nothing.
	ComposeHash string `json:"compose_hash,omitempty"`
	// OwnEnv names the values of env that Slots of the group have of their own at the Revision, all
	// of them together, as the spec had them; empty: there were none. Nothing measures
	// them: another value needs another approval.
	OwnEnv string `json:"own_env,omitempty"`
	// Group that it is for; empty: every group.
	Group string    `json:"group,omitempty"`
	Note  string    `json:"note,omitempty"`
	By    string    `json:"by"`
	At    time.Time `json:"at"`
}

// RevocationKind is the kind of name that a Revocation carries.
type RevocationKind string

const (
	// RevokedInstance names one instance id.
	RevokedInstance RevocationKind = "instance"
	// RevokedRevision names a Revision or a compose hash.
	RevokedRevision RevocationKind = "revision"
	// RevokedKeyProvider names the id of a key provider.
	RevokedKeyProvider RevocationKind = "key_provider"
)

// RevocationKinds lists every kind.
var RevocationKinds = []RevocationKind{RevokedInstance, RevokedRevision, RevokedKeyProvider}

// Revocation is the record at control/revocations/<kind>-<id>. It is in force while its key exists.
// The key alone names the revoked item; the value may be anything.
type Revocation struct {
	Kind   RevocationKind `json:"kind"`
	ID     string         `json:"id"`
	Reason string         `json:"reason"`
	By     string         `json:"by"`
	At     time.Time      `json:"at"`
}

// Name is the last segment of the key.
func (r Revocation) Name() string { return string(r.Kind) + "-" + r.ID }

// ParseRevocation reads kind and id out of the last segment of a key.
func ParseRevocation(name string) (r Revocation, ok bool) {
	for _, kind := range RevocationKinds {
		if id, found := strings.CutPrefix(name, string(kind)+"-"); found && id != "" {
			return Revocation{Kind: kind, ID: id}, true
		}
	}
	return Revocation{}, false
}

// RevokedAs are the names of the Revocations that would shut out a Boot of that Instance
// and Revision with those Claims, in the spelling of evidence and in lower case. Other
// spellings name the same (Revoking); a transaction can check for these.
func RevokedAs(instanceID, revision string, c Claims) []string {
	var names []string
	add := func(kind RevocationKind, id string) {
		if id == "" {
			return
		}
		for _, spelled := range []string{id, strings.ToLower(id)} {
			if name := (Revocation{Kind: kind, ID: spelled}).Name(); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	add(RevokedInstance, instanceID)
	add(RevokedRevision, revision)
	add(RevokedRevision, normalHash(c.ComposeHash))
	add(RevokedKeyProvider, c.KeyProviderID)
	return names
}

// Floor is the record at control/floor/<group>, or at control/floor/_all: content below the floor
// is not admitted. A floor only rises: the leader keeps the highest accepted floor (ATT-25).
type Floor struct {
	// Number of the oldest Revision that may still run; only for one group.
	Number uint64 `json:"number,omitempty"`
	// NotBefore refuses content that the cluster first saw earlier.
	NotBefore time.Time `json:"not_before,omitzero"`
	Reason    string    `json:"reason,omitempty"`
	By        string    `json:"by"`
	At        time.Time `json:"at"`
}

// GroupPolicy is the leader's record at policy/groups/<g>: the order of the group's Revisions, and
// the accepted requests of operators.
type GroupPolicy struct {
	Group string `json:"group"`
	// RequireApproval: the group's spec or the cluster's switch asks for it.
	RequireApproval bool `json:"require_approval,omitempty"`
	// Revisions are all former and present targets of the group. They stay permanently: an old
	// Revision with a new number would pass the floor.
	Revisions map[string]Numbered `json:"revisions,omitempty"`
	// Last number given.
	Last uint64 `json:"last"`
	// Floor is the highest accepted one.
	Floor AcceptedFloor `json:"floor,omitzero"`
	// Approvals in force, by Revision.
	Approvals map[string]Approval `json:"approvals,omitempty"`
	// Revoked are the Revisions and compose hashes that are revoked.
	Revoked []Revocation `json:"revoked,omitempty"`
	// Epoch grows with each change of the record.
	Epoch uint64 `json:"epoch"`
	Term  uint64 `json:"term"`
}

// Numbered is the place of one Revision in its group's order.
type Numbered struct {
	// Number is given once, by first use.
	Number uint64 `json:"number"`
	// Content is a digest of the measured content. Attestation cannot distinguish Revisions with
	// the same Content, so one decision covers all of them.
	Content string `json:"content"`
	// At is when the cluster first saw the Content, in whichever group.
	At time.Time `json:"at"`
}

// AcceptedFloor is a Floor that is in force.
type AcceptedFloor struct {
	// Number is the first of the Revisions with the same measured content as the requested one.
	Number uint64    `json:"number,omitempty"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at,omitzero"`
	// Accepted is when the leader took it over.
	Accepted time.Time `json:"accepted,omitzero"`
}

// Number of a Revision as operators see it (#7); 0: not numbered yet.
func (gp GroupPolicy) Number(revision string) uint64 { return gp.Revisions[revision].Number }

// Order is compared with the floor: the number of the first Revision with the same measured
// content. 0: not numbered.
func (gp GroupPolicy) Order(revision string) uint64 {
	own, ok := gp.Revisions[revision]
	if !ok {
		return 0
	}
	return gp.orderOf(own.Content, own.Number)
}

func (gp GroupPolicy) orderOf(content string, otherwise uint64) uint64 {
	first := otherwise
	for _, n := range gp.Revisions {
		if n.Content == content && n.Number < first {
			first = n.Number
		}
	}
	return first
}

// Revision with the given number.
func (gp GroupPolicy) Revision(number uint64) (revision string, ok bool) {
	for digest, n := range gp.Revisions {
		if n.Number == number {
			return digest, true
		}
	}
	return "", false
}

// Judge decides whether a Revision of the group may be rolled out now. content is the digest of its
// measured content, composeHash the hash where it is known. A Revision without a number takes the
// order of earlier Revisions with the same content.
func (gp GroupPolicy) Judge(revision, content, composeHash string) Decision {
	number, order := gp.Number(revision), gp.Order(revision)
	if order == 0 {
		number = gp.Last + 1
		order = gp.orderOf(content, number)
	}
	for _, r := range gp.Revoked {
		if r.concerns(revision, composeHash) {
			return deny(CodeRevisionNotAllowed, "revision %.8s (#%d) is revoked: %s", revision, number, cmp.Or(r.Reason, "no reason was given"))
		}
	}
	switch {
	case order < gp.Floor.Number && order != number:
		return deny(CodeRevisionBelowFloor, "revision %.8s (#%d) measures the same as #%d, which is below the floor #%d", revision, number, order, gp.Floor.Number)
	case order < gp.Floor.Number:
		return deny(CodeRevisionBelowFloor, "revision %.8s (#%d) is below the floor #%d", revision, number, gp.Floor.Number)
	case gp.RequireApproval && !gp.Approved(revision, composeHash):
		if a, ok := gp.Approvals[strings.ToLower(revision)]; ok {
			return deny(CodeRevisionNotApproved, "revision %.8s (#%d) was approved as compose hash %.64q, and would be measured as %.64q", revision, number, a.ComposeHash, composeHash)
		}
		return deny(CodeRevisionNotApproved, "revision %.8s (#%d) is not approved", revision, number)
	}
	return Decision{Allowed: true, Revision: revision}
}

// JudgeEnv decides whether a CVM may receive its Slot's own env values at a Revision. own names the
// Slot's values, given the values that its CVM received last, and all the values of all Slots.
// Values that the Slot has already received, and the template's values, need no further approval.
func (gp GroupPolicy) JudgeEnv(revision, slot, own, given, all string) Decision {
	approval := gp.Approvals[strings.ToLower(revision)]
	if gp.RequireApproval && own != "" && own != given && approval.OwnEnv != all {
		return deny(CodeRevisionNotApproved, "the values of env that %s has of its own (own_env %s) are not approved with revision %.8s", slot, all, revision)
	}
	return Decision{Allowed: true, Revision: revision}
}

// Approved reports an Approval of the Revision with this compose hash. An approval of other bytes
// does not carry over, and a hash alone approves no Revision, because its hooks, checks and
// settings are not measured. Before the platform has answered, the hash is unknown: an Approval of
// the Revision then counts for the plan, and the caller checks again once it has the hash.
func (gp GroupPolicy) Approved(revision, composeHash string) bool {
	a, ok := gp.Approvals[strings.ToLower(revision)]
	approved := normalHash(a.ComposeHash)
	return revision != "" && ok && approved != "" && (composeHash == "" || approved == normalHash(composeHash))
}

// concerns: r revokes the Revision or the hash.
func (r Revocation) concerns(revision, composeHash string) bool {
	hash := normalHash(r.ID)
	return r.Kind == RevokedRevision &&
		(revision != "" && strings.EqualFold(r.ID, revision) || hash != "" && hash == normalHash(composeHash))
}

// maxRevoked bounds the revocations of one record; coordinators add the revocations that they read
// themselves.
const maxRevoked = 32

// Under is sp as the group's policy and the revocations want it. Epoch and Term are
// left alone.
func (sp SlotPolicy) Under(gp GroupPolicy, revoked []Revocation) SlotPolicy {
	sp.RequireApproval, sp.Floor = gp.RequireApproval, gp.Floor.Number
	sp.Allowed = slices.Clone(sp.Allowed)
	for i := range sp.Allowed {
		a := &sp.Allowed[i]
		a.Number, a.Approved = gp.Order(a.Revision), gp.Approved(a.Revision, a.ComposeHash)
	}
	sp.Revoked = nil
	return sp.Revoking(revoked)
}

// Revoking returns sp with the additional revocations that apply to the Slot. Existing revocations
// stay.
func (sp SlotPolicy) Revoking(revoked []Revocation) SlotPolicy {
	byName := map[string]Revocation{}
	for _, r := range append(slices.Clone(sp.Revoked), revoked...) {
		if _, known := byName[r.Name()]; !known && sp.concernedBy(r) {
			byName[r.Name()] = r
		}
	}
	if len(byName) == 0 {
		sp.Revoked = nil
		return sp
	}
	sp.Revoked = slices.SortedFunc(maps.Values(byName), func(a, b Revocation) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Name(), b.Name()))
	})
	return sp
}

// AtLeast returns sp with the accepted floor of its group, if that is higher. The floor of sp stays
// otherwise: after a restore the group's policy may be older.
func (sp SlotPolicy) AtLeast(gp GroupPolicy) SlotPolicy {
	sp.Floor = max(sp.Floor, gp.Floor.Number)
	return sp
}

// Bounded is sp with as many revocations as a record may carry.
func (sp SlotPolicy) Bounded() SlotPolicy {
	if len(sp.Revoked) > maxRevoked {
		sp.Revoked = sp.Revoked[:maxRevoked]
	}
	return sp
}

func (sp SlotPolicy) concernedBy(r Revocation) bool {
	switch r.Kind {
	case RevokedInstance:
		return sp.InstanceID != "" && strings.EqualFold(r.ID, sp.InstanceID)
	case RevokedRevision:
		return slices.ContainsFunc(sp.Allowed, func(a AllowedRevision) bool { return r.concerns(a.Revision, a.ComposeHash) })
	case RevokedKeyProvider:
		return true // the Boots' own evidence names theirs
	}
	return false
}

// Narrows reports whether the change from before to after may take a right away from a Boot that
// runs the named Revision, so that the Boot must attest again. Another allowed Revision takes no
// right away, and neither does the withdrawal of a Revision that the Boot does not run.
func Narrows(before, after SlotPolicy, running string) bool {
	if before.InstanceID != "" && (before.InstanceID != after.InstanceID || before.AppID != after.AppID) {
		return true
	}
	if after.RequireApproval && !before.RequireApproval || after.Floor > before.Floor {
		return true
	}
	for _, r := range after.Revoked {
		if !slices.ContainsFunc(before.Revoked, func(old Revocation) bool { return old.Name() == r.Name() }) {
			return true
		}
	}
	for _, a := range before.Allowed {
		if a.Revision != running {
			continue
		}
		// Numbers and approvals may be added. The measured content and an existing approval must
		// stay.
		if !slices.ContainsFunc(after.Allowed, func(b AllowedRevision) bool {
			kept := a
			kept.Number, kept.Approved = b.Number, b.Approved
			return b == kept && (b.Approved || !a.Approved) && b.Number >= a.Number
		}) {
			return true
		}
	}
	return false
}
