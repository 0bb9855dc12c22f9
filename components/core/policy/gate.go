package policy

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Approval is the record at control/approvals/<revision>: a person looked at the content
// and lets it be admitted. Deleting it takes it back for
// Boots to come.
type Approval struct {
	// Revision is the last segment of the key, 32 hex digits.
	Revision string `json:"revision"`
	// ComposeHash that the approval is for, 64 hex digits: what was looked at. Without
	// one the approval counts for nothing.
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

// RevocationKind is what a Revocation names.
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

// Revocation is the record at control/revocations/<kind>-<id>. It is in force while
// its key exists, whatever is written there: the key says what is revoked.
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

// Floor is the record at control/floor/<group>, or at control/floor/_all: what was
// made earlier is not admitted any more. It only rises: the leader keeps the
// highest that it accepted (ATT-25).
type Floor struct {
	// Number of the oldest Revision that may still run; only for one group.
	Number uint64 `json:"number,omitempty"`
	// NotBefore refuses content that the cluster first saw earlier.
	NotBefore time.Time `json:"not_before,omitzero"`
	Reason    string    `json:"reason,omitempty"`
	By        string    `json:"by"`
	At        time.Time `json:"at"`
}

// GroupPolicy is the leader's record at policy/groups/<g>: the order of the group's
// Revisions and what operators asked for, as far as it was accepted.
type GroupPolicy struct {
	Group string `json:"group"`
	// RequireApproval: the group's spec or the cluster's switch asks for it.
	RequireApproval bool `json:"require_approval,omitempty"`
	// Revisions are all that were ever a target of the group. They are never
	// forgotten: an old one that came back under a new number would pass the floor.
	Revisions map[string]Numbered `json:"revisions,omitempty"`
	// Last number given.
	Last uint64 `json:"last"`
	// Floor is the highest one that was accepted.
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
	// Content is a digest of what is measured. Revisions that differ in nothing
	// measured look the same to attestation and stand and fall together.
	Content string `json:"content"`
	// At is when the cluster first saw the Content, in whichever group.
	At time.Time `json:"at"`
}

// AcceptedFloor is a Floor that is in force.
type AcceptedFloor struct {
	// Number is the first of the Revisions that measure like the one that was asked for.
	Number uint64    `json:"number,omitempty"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at,omitzero"`
	// Accepted is when the leader took it over.
	Accepted time.Time `json:"accepted,omitzero"`
}

// Number of a Revision as operators see it (#7); 0: not numbered yet.
func (gp GroupPolicy) Number(revision string) uint64 { return gp.Revisions[revision].Number }

// Order is what the floor is compared with: the number of the first Revision that
// has the same measured content. 0: not numbered.
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

// Judge says whether a Revision of the group may be rolled out now. content is the
// digest of what it measures, composeHash the hash where it is known. A Revision
// that has no number yet takes the order of content that the group had before.
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

// JudgeEnv says whether a CVM may be given the values of env that its Slot has of its own at a
// Revision. own names those of the Slot, given those that its CVM was given last, and all those of
// all Slots. Values that the Slot was given, or the template's own, need no further word.
func (gp GroupPolicy) JudgeEnv(revision, slot, own, given, all string) Decision {
	approval := gp.Approvals[strings.ToLower(revision)]
	if gp.RequireApproval && own != "" && own != given && approval.OwnEnv != all {
		return deny(CodeRevisionNotApproved, "the values of env that %s has of its own (own_env %s) are not approved with revision %.8s", slot, all, revision)
	}
	return Decision{Allowed: true, Revision: revision}
}

// Approved reports an Approval of the Revision as this compose hash: one that was made
// for other bytes does not carry over, nor does a hash stand for a Revision, whose hooks,
// checks and settings nothing measures. While no hash is known, before a
// platform was asked, an Approval of the Revision counts for the plan; whoever allows a
// hash asks again with it.
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

// maxRevoked bounds what one record carries; coordinators add what they see.
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

// Revoking is sp with more revocations: those that concern the Slot. None is ever
// taken away by it.
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
		return true // the Boots tell theirs
	}
	return false
}

// Narrows reports whether going from before to after may take something away from a
// Boot that runs the named Revision, so that it has to attest again. Allowing one
// more Revision, or withdrawing one that it does not run, does not.
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
		// Numbers and approvals may come; what is measured must stay, and what was
		// approved must stay approved.
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
