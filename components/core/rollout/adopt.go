package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"cadre.dev/core/address"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
)

// proofKept is the maximum age of a Proof that an adoption relies on. An agent without an admission retries within
// seconds, and each retry attests the running CVM again.
const proofKept = 10 * time.Minute

// makes reports that a platform call of op may have created a CVM.
func makes(op *operation.Operation) bool {
	return (op.Kind == operation.Create || op.Kind == operation.Replace) && op.Call.Number > 0
}

// Adoptable is a member of a group that no record binds, with the known facts about the CVM that may become the
// member.
type Adoptable struct {
	Slot    string `json:"slot"`
	Ordinal int    `json:"ordinal"`
	// The CVM under the Slot's name; empty: the platform lists no such CVM.
	PlatformName   string `json:"platform_name,omitempty"`
	PlatformStatus string `json:"platform_status,omitempty"`
	VMUUID         string `json:"vm_uuid,omitempty"`
	// The newest attested claims of the CVM's agent; empty: the agent has not attested yet.
	AppID       string    `json:"app_id,omitempty"`
	InstanceID  string    `json:"instance_id,omitempty"`
	ComposeHash string    `json:"compose_hash,omitempty"`
	BootID      string    `json:"boot_id,omitempty"`
	AttestedAt  time.Time `json:"attested_at,omitzero"`
	Simulated   bool      `json:"simulated,omitempty"`
	// Revision is the Revision with the attested measurement, Number its position in the group's order.
	Revision string `json:"revision,omitempty"`
	Number   uint64 `json:"number,omitempty"`
	// VIP is the address that the member had before; "": the member gets a new address.
	VIP string `json:"vip,omitempty"`
	// Missing is the reason why the CVM cannot be adopted now; "": it can.
	Missing string `json:"missing,omitempty"`
	// Busy: a platform task works on the CVM. When the task ends, the cause of Missing may be gone.
	Busy bool `json:"busy,omitempty"`
	// Asked: an operator's request to the leader to bind the CVM is recorded.
	Asked bool `json:"asked,omitempty"`

	allowed policy.AllowedRevision
}

// AdoptionFacts is the input to the evaluation of one Slot's adoption.
type AdoptionFacts struct {
	Spec group.Spec
	// Record is the stored record; its Slot, Group, Ordinal and PlatformName are set.
	Record group.SlotRecord
	// Bound: the Slot's policy names an instance.
	Bound bool
	// Open is the Slot's Operation that has not ended; nil: no Operation is open.
	Open *operation.Operation
	// Instance is the CVM under the Slot's name. Duplicates counts the other CVMs with that name.
	Instance   *Instance
	Duplicates int
	// AppID of the group; empty: the app id is not known yet.
	AppID string
	// Proof is the evidence of a Boot that asked for admission to the Slot; nil: no Boot asked.
	Proof     *policy.Proof
	Revisions map[string]group.RevisionRecord
	Policy    policy.GroupPolicy
	Revoked   []policy.Revocation
	Images    policy.ImagePolicy
	// VIPs are the addresses of other groups' Slots and of this group's bound Slots, by Slot.
	VIPs map[string]string
	// Addresses are the address blocks of the other groups, by group.
	Addresses map[string]address.Given
}

// Adoption evaluates whether the CVM under the Slot's name can become the member. ok is false when the Slot is
// bound already: then no adoption is possible.
func Adoption(f AdoptionFacts, now time.Time) (a Adoptable, ok bool) {
	r, i := f.Record, f.Instance
	a = Adoptable{Slot: r.Slot, Ordinal: r.Ordinal, PlatformName: r.PlatformName}
	recorded := r.VMUUID != "" || r.InstanceID != ""
	if recorded && f.Bound || recorded && (i == nil || r.VMUUID != "" && r.VMUUID != i.VMUUID || r.InstanceID != "" && i.InstanceID != r.InstanceID) {
		return a, false
	}
	if i != nil {
		a.VMUUID, a.PlatformStatus, a.Busy = i.VMUUID, i.Status, i.InProgress
	}
	if p := f.Proof; p != nil {
		a.AppID, a.InstanceID, a.ComposeHash, a.BootID, a.AttestedAt = p.Claims.AppID, p.Claims.InstanceID, p.Claims.ComposeHash, p.BootID, p.At
		a.Simulated = p.Claims.Simulated
	}
	if a.Missing = f.unproven(now); a.Missing == "" {
		a.Missing = a.recognise(f, now)
	}
	if a.Missing == "" {
		a.VIP, a.Missing = f.address()
	}
	return a, true
}

// unproven returns the reason that excludes the adoption before the CVM's Revision matters; "": none.
func (f AdoptionFacts) unproven(now time.Time) string {
	i, p := f.Instance, f.Proof
	switch {
	case f.Open != nil:
		return fmt.Sprintf("operation %s of the slot is under way: %s", f.Open.ID, f.Open.Phase)
	case i == nil:
		return "the platform lists no CVM of this name"
	case f.Duplicates > 0:
		return fmt.Sprintf("%d CVMs carry its name: remove the wrong ones on the platform", 1+f.Duplicates)
	case !i.Running():
		return "the platform says " + platformWord(i)
	case p == nil:
		return "its agent has attested nothing yet: one that is not admitted asks again within a minute or two; if it never does, see its log"
	case now.Sub(p.At) > proofKept:
		return fmt.Sprintf("its agent attested last %s ago", short(now.Sub(p.At)))
	case p.Claims.InstanceID != i.InstanceID:
		return fmt.Sprintf("the platform says that instance %.12s has this name, and instance %.12s attested", i.InstanceID, p.Claims.InstanceID)
	case f.AppID != "" && p.Claims.AppID != f.AppID:
		return fmt.Sprintf("it attested app %s, the group's is %s", p.Claims.AppID, f.AppID)
	}
	return ""
}

// recognise finds the Revision whose measurement the CVM attested and that the Slot may run. Several Revisions
// match when they differ only in unmeasured fields. Then the Revision whose document has exactly the attested hash
// comes first. The spec's target comes next, which saves the member a restart. The newest Revision follows.
func (a *Adoptable) recognise(f AdoptionFacts, now time.Time) (missing string) {
	target := f.Spec.Revision()
	revisions := maps.Clone(f.Revisions)
	if revisions == nil {
		revisions = map[string]group.RevisionRecord{}
	}
	if _, ok := revisions[target]; !ok {
		revisions[target] = group.RevisionRecord{Digest: target, Group: f.Spec.Name, Template: f.Spec.Template}
	}
	order := slices.SortedFunc(maps.Keys(revisions), func(x, y string) int {
		rank := func(digest string) (n int) {
			if revisions[digest].ComposeHash != a.ComposeHash {
				n += 2
			}
			if digest != target {
				n++
			}
			return n
		}
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(f.Policy.Order(y), f.Policy.Order(x)), cmp.Compare(x, y))
	})
	for _, digest := range order {
		r := revisions[digest]
		if r.Template.Compose == "" || r.Group != "" && r.Group != f.Spec.Name {
			continue
		}
		allowed := AllowedAs(digest, r.Template, a.ComposeHash)
		sp := policy.SlotPolicy{Group: f.Spec.Name, Slot: a.Slot, AppID: a.AppID, InstanceID: a.InstanceID, Allowed: []policy.AllowedRevision{allowed}}
		d := policy.AppraiseProof(sp.Under(f.Policy, f.Revoked), f.Images, *f.Proof, now)
		if d.Allowed {
			a.Revision, a.Number, a.allowed = digest, f.Policy.Number(digest), allowed
			return ""
		}
		if digest == target || missing == "" {
			missing = fmt.Sprintf("%s: %s", d.Code, d.Message)
		}
	}
	return missing
}

// AllowedAs returns the policy entry that allows a Slot to run a Revision measured as composeHash.
func AllowedAs(revision string, t group.Template, composeHash string) policy.AllowedRevision {
	text := sha256.Sum256([]byte(appcompose.Marked(t.Compose)))
	return policy.AllowedRevision{
		Revision: revision, ComposeHash: composeHash, ComposeTextSHA256: hex.EncodeToString(text[:]),
		EnvNames: appcompose.JoinNames(slices.Collect(maps.Keys(t.Env))), OSImage: t.OSImage,
	}
}

// address returns the VIP that the member keeps. A member whose earlier VIP is taken is not adopted: another
// address would make the member start over.
func (f AdoptionFacts) address() (vip, missing string) {
	if f.Proof.VIP == "" {
		return f.Record.VIP, ""
	}
	own, err := netip.ParseAddr(f.Proof.VIP)
	block, given := address.Around(own, f.Record.Ordinal)
	if err != nil || !given {
		return "", fmt.Sprintf("it says that its address is %.40q, which no slot %s is given", f.Proof.VIP, f.Record.Slot)
	}
	for _, slot := range slices.Sorted(maps.Keys(f.VIPs)) {
		other, err := netip.ParseAddr(f.VIPs[slot])
		g, _, _ := group.ParseSlot(slot)
		if err != nil || slot == f.Record.Slot {
			continue
		}
		if other == own || g != f.Spec.Name && block.Net.Contains(other) {
			return "", fmt.Sprintf("its address %s does not go with %s of %s: the records were made anew since; delete the wrong slots first", own, other, slot)
		}
	}
	for _, g := range slices.Sorted(maps.Keys(f.Addresses)) {
		if other, overlaps := f.Addresses[g].Overlapping(block.Net); overlaps {
			return "", fmt.Sprintf("its address %s lies in %s of group %s: the records were made anew since; delete that group's slots first", own, other.Net, g)
		}
	}
	return own.String(), ""
}

// Bind returns the two records of the adopted member: the Slot's binding, and its policy.
func (a Adoptable) Bind(record group.SlotRecord, before policy.SlotPolicy) (group.SlotRecord, policy.SlotPolicy) {
	record.AppID, record.InstanceID, record.VMUUID = a.AppID, a.InstanceID, a.VMUUID
	record.Assigned = a.Revision
	record.Extra = false // the disk of an adopted CVM may hold an owner's data
	record.VIP = cmp.Or(a.VIP, record.VIP)
	after := policy.SlotPolicy{
		Group: record.Group, Slot: a.Slot, AppID: a.AppID, InstanceID: a.InstanceID,
		Allowed: []policy.AllowedRevision{a.allowed}, Epoch: before.Epoch,
	}
	return record, after
}
