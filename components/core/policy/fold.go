package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxRevisions bounds the order of one group. Beyond it nothing new is numbered,
// and so nothing new is rolled out: forgetting an old one would open the floor.
const maxRevisions = 2000

// Known is a Revision with the values that decide its place in the order.
type Known struct {
	Revision string
	// Content is a digest of the measured content; ComposeHash is the platform's hash, where it is
	// known.
	Content, ComposeHash string
	// Number that its record carries; 0: none.
	Number uint64
	// At is when the cluster first saw the content; zero: now.
	At time.Time
}

// Asked is everything that a GroupPolicy is made of.
type Asked struct {
	Group string
	// RequireApproval as the spec in force or the cluster's switch says it.
	RequireApproval bool
	// Target is the Revision of the spec.
	Target Known
	// Recorded are the group's other Revisions that have a record.
	Recorded []Known
	// Stable counts as approved when approval becomes required: it runs already.
	Stable string
	// Approvals and Revoked are the operators' records.
	Approvals []Approval
	Revoked   []Revocation
	// Floor is the group's, Everywhere is the floor of all groups; nil: none.
	Floor, Everywhere *Floor
	// FloorSeen is the highest floor that any record of a Slot of the group carries.
	FloorSeen uint64
}

// Problem is something that operators asked for and that is not done.
type Problem struct {
	// Reason is a stable word, for a Condition.
	Reason  string
	Message string
}

// Reasons of Problems.
const (
	// ProblemFloorNotLowered: the key asks for a lower floor than the accepted one.
	ProblemFloorNotLowered = "FLOOR_NOT_LOWERED"
	// ProblemFloorUnknown: the key names no Revision of the group.
	ProblemFloorUnknown = "FLOOR_UNKNOWN"
	// ProblemUnreadable: a record of an operator counts for nothing as it is.
	ProblemUnreadable = "RECORD_UNREADABLE"
	// ProblemApprovalUnbound: an approval does not name both a Revision and its hash.
	ProblemApprovalUnbound = "APPROVAL_UNBOUND"
	// ProblemOrderFull: no further Revision can be numbered.
	ProblemOrderFull = "REVISION_NUMBERS_USED_UP"
)

// Fold is gp as it should read now. It never lowers the floor, never changes a
// number, and never forgets a Revision. Epoch and Term are left alone.
func (gp GroupPolicy) Fold(asked Asked, now time.Time) (GroupPolicy, []Problem) {
	var problems []Problem
	gp.Group = asked.Group
	gp.Revisions = maps.Clone(gp.Revisions)
	if gp.Revisions == nil {
		gp.Revisions = map[string]Numbered{}
	}
	gp.number(asked, now)
	if _, ok := gp.Revisions[asked.Target.Revision]; !ok {
		problems = append(problems, Problem{ProblemOrderFull, fmt.Sprintf("the group had %d revisions already, and none is forgotten: make a new group for the next one", maxRevisions)})
	}
	problems = append(problems, gp.approve(asked, now)...)
	gp.Revoked = nil
	for _, r := range asked.Revoked {
		if r.Kind == RevokedRevision && asked.names(r.ID) {
			gp.Revoked = append(gp.Revoked, r)
		}
	}
	slices.SortFunc(gp.Revoked, func(a, b Revocation) int { return cmp.Compare(a.Name(), b.Name()) })
	return gp, append(problems, gp.raise(asked, now)...)
}

// number numbers the Revisions. A Revision that carries a number keeps it, so that a lost record
// returns with the same order.
func (gp *GroupPolicy) number(asked Asked, now time.Time) {
	recorded := slices.Clone(asked.Recorded)
	slices.SortFunc(recorded, func(a, b Known) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), a.At.Compare(b.At), cmp.Compare(a.Revision, b.Revision))
	})
	// The target too: a spec that goes back while the leader's record is lost would
	// otherwise come in under a new number, above the floor.
	recorded = append(recorded, asked.Target)
	for _, k := range recorded {
		if _, taken := gp.Revision(k.Number); k.Number > 0 && !taken && gp.Revisions[k.Revision].Number == 0 {
			gp.place(k, k.Number, now)
		}
	}
	for _, k := range recorded {
		if gp.Revisions[k.Revision].Number == 0 && k.Revision != "" && len(gp.Revisions) < maxRevisions {
			gp.place(k, gp.Last+1, now)
		}
	}
}

func (gp *GroupPolicy) place(k Known, number uint64, now time.Time) {
	at := k.At
	if at.IsZero() {
		at = now
	}
	for _, n := range gp.Revisions {
		if n.Content == k.Content && n.At.Before(at) {
			at = n.At
		}
	}
	gp.Revisions[k.Revision] = Numbered{Number: number, Content: k.Content, At: at}
	gp.Last = max(gp.Last, number)
}

// approve accepts the approvals. When approval becomes required for a running group, its running
// Revision counts as approved: the setting applies to later Revisions.
func (gp *GroupPolicy) approve(asked Asked, now time.Time) (problems []Problem) {
	kept := map[string]Approval{}
	for id, a := range gp.Approvals {
		if a.By == ApprovedByLeader && asked.RequireApproval && asked.names(id) {
			kept[id] = a
		}
	}
	if asked.RequireApproval && !gp.RequireApproval && asked.Stable != "" {
		kept[asked.Stable] = Approval{
			Revision: asked.Stable, ComposeHash: asked.hashOf(asked.Stable), Group: asked.Group, By: ApprovedByLeader, At: now,
			Note: "was stable when approval became required",
		}
	}
	for _, a := range asked.Approvals {
		id := strings.ToLower(a.Revision)
		if (a.Group == "" || a.Group == asked.Group) && asked.names(id) {
			switch {
			case normalHash(id) != "":
				problems = append(problems, Problem{ProblemApprovalUnbound, fmt.Sprintf("control/approvals/%s names a compose hash, which hooks, checks and driver settings are no part of, so it counts for nothing: approve the revision with `cadre admission approve`", id)})
			case normalHash(a.ComposeHash) == "":
				problems = append(problems, Problem{ProblemApprovalUnbound, fmt.Sprintf("control/approvals/%s names no compose_hash, so it counts for nothing: approve with `cadre admission approve`, or add the hash that was looked at", id)})
				if _, ok := kept[id]; !ok { // keep an approval that counts
					kept[id] = a
				}
			default:
				kept[id] = a
			}
		}
	}
	if gp.Approvals = kept; len(kept) == 0 {
		gp.Approvals = nil
	}
	gp.RequireApproval = asked.RequireApproval
	return problems
}

// hashOf is the compose hash of a Revision, where its record has one.
func (a Asked) hashOf(revision string) string {
	for _, k := range append(slices.Clone(a.Recorded), a.Target) {
		if k.Revision == revision {
			return k.ComposeHash
		}
	}
	return ""
}

// ApprovedByLeader is the approver of the Revision that ran before approval was required.
const ApprovedByLeader = "leader"

// names: id is a Revision that the group may run, or the compose hash of one. Others
// are left out of the record, which has a bound.
func (a Asked) names(id string) bool {
	hash := normalHash(id)
	return slices.ContainsFunc(append(slices.Clone(a.Recorded), a.Target), func(k Known) bool {
		return strings.EqualFold(k.Revision, id) || hash != "" && normalHash(k.ComposeHash) == hash
	})
}

// raise accepts a floor that is higher than the present one.
func (gp *GroupPolicy) raise(asked Asked, now time.Time) (problems []Problem) {
	if asked.FloorSeen > gp.Floor.Number {
		gp.Floor = AcceptedFloor{Number: asked.FloorSeen, Reason: "a slot's policy carried it", By: ApprovedByLeader, Accepted: now}
	}
	accept := func(number uint64, f Floor) {
		if number > gp.Floor.Number {
			gp.Floor = AcceptedFloor{Number: number, Reason: f.Reason, By: f.By, At: f.At, Accepted: now}
		}
	}
	for _, f := range []*Floor{asked.Floor, asked.Everywhere} {
		if f != nil && !f.NotBefore.IsZero() {
			accept(gp.firstSince(f.NotBefore), *f)
		}
	}
	if f := asked.Floor; f != nil && f.Number > 0 {
		revision, ok := gp.Revision(f.Number)
		switch order := gp.Order(revision); {
		case !ok:
			// A floor at a future number would shut out every present Revision permanently.
			problems = append(problems, Problem{ProblemFloorUnknown, fmt.Sprintf("control/floor/%s asks for #%d, but the newest revision of the group is #%d: nothing is changed", gp.Group, f.Number, gp.Last)})
		case order < gp.Floor.Number:
			problems = append(problems, Problem{ProblemFloorNotLowered, fmt.Sprintf("control/floor/%s asks for #%d, but #%d was accepted: a floor only rises, and #%d stays", gp.Group, f.Number, gp.Floor.Number, gp.Floor.Number)})
		default:
			accept(order, *f)
		}
	}
	return problems
}

// firstSince is the first number after all Revisions whose content is older than at; 0 when none
// is.
func (gp *GroupPolicy) firstSince(at time.Time) uint64 {
	var floor uint64
	for digest, n := range gp.Revisions {
		if n.At.Before(at) {
			floor = max(floor, gp.Order(digest)+1)
		}
	}
	return floor
}
