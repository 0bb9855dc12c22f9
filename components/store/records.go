package store

import (
	"fmt"
	"reflect"
	"strings"

	"cadre.dev/core/address"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	"cadre.dev/core/route"
)

//go:generate go run ./internal/gendocs -o ../../docs/kv.md

// Writer is the only component that writes a record.
type Writer string

const (
	// Operator writes through the API, the CLI, Terraform or plain KV edits.
	Operator Writer = "operator"
	// Leader is the coordinator that holds the Lease; its writes are fenced.
	Leader Writer = "leader"
	// Admitter is any coordinator that admits a Boot; its writes check the Term's
	// index and the policy's index, and use check-and-set.
	Admitter Writer = "admission"
	// Founder is the first coordinator whose Consul has a leader; it creates missing records. They
	// are never written again.
	Founder Writer = "founder"
	// Coordinator is any coordinator, by check-and-set.
	Coordinator Writer = "coordinator"
)

// Kind describes the records of one key pattern.
type Kind struct {
	// Pattern of the key below the prefix; <x> stands for one segment.
	Pattern string
	// Type of the value.
	Type   reflect.Type
	Writer Writer
	// MaxBytes bounds the JSON text, for writing and before parsing.
	MaxBytes int
	// Meaning in a sentence or two.
	Meaning string
}

// kib is 1 KiB. A Revision in base64 must leave room in a transaction
// (MaxTxnBytes) for a status and the small records.
const kib = 1 << 10

// Records is the table of all records. docs/kv.md is generated from it.
var Records = []Kind{
	{ClusterIDKey, typeOf[ClusterIDRecord](), Founder, 1 * kib,
		"Which cluster ID of the cluster these records are of. Created once, by check-and-set, while there is no other record; never changed or deleted. Coordinators halt when it is not the one on their disks, or is gone while others are there."},
	{"groups/<group>/spec", typeOf[group.Spec](), Operator, group.MaxSpecBytes,
		"What the operator wants the group to be. Editing it starts a rollout; a spec that does not validate becomes a condition in the status and changes nothing."},
	{"groups/<group>/accepted", typeOf[AcceptedSpec](), Leader, group.MaxSpecBytes + 32*kib,
		"The last spec that the leader judged fit. The group is run by it, on every coordinator: an edit of the spec counts once it is here, and one that is refused, or removes the spec, changes nothing."},
	{"applied/<group>", typeOf[Applied](), Coordinator, 2 * kib,
		"The token's name and the request's id of the last call of the API that wrote the group's spec. Written in one transaction with the spec: while both have one modify index, the spec is that call's. A spec with another index was written to Consul KV directly."},
	{"groups/<group>/status", typeOf[group.Status](), Leader, 96 * kib,
		"What the leader sees and does about the group, with reasons. observed_index is the modify index of the spec that it speaks of. Written without instances: each Slot has a record of its own."},
	{"groups/<group>/slots/<slot>", typeOf[group.InstanceStatus](), Leader, 16 * kib,
		"What the leader sees of one Slot, and what its next step waits for. Written when it changes, removed with the Slot. Nothing rests on it."},
	{"revisions/<digest>", typeOf[group.RevisionRecord](), Leader, group.MaxSpecBytes + 8*kib,
		"Content of one Revision. The content is written once and never changed; the compose hash follows when its app-compose.json is rendered anew."},
	{"app-compose/<hash>", typeOf[policy.Document](), Leader, 352 * kib,
		"The app-compose.json with this compose hash, compressed: judged before the hash was allowed for any Slot. Removed when no Revision and no policy names the hash any more."},
	{"slots/<group>/<slot>", typeOf[group.SlotRecord](), Leader, 8 * kib,
		"Binding of a Slot to the Instance that fills it, and the Revision assigned to it."},
	{"addresses/<group>", typeOf[address.Given](), Leader, 32 * kib,
		"The blocks of virtual addresses that the group's Slots have theirs from. None is taken back while the group is there; the record goes a day after nothing of the group is left, and until then nobody else is given its addresses."},
	{"routes/<route>", typeOf[route.Record](), Leader, 1 * kib,
		"The virtual address of a route. It is given once and never removed or given to another route: an address that an application remembers leads to that route or nowhere. `group` declares the route, or did last."},
	{"servicemesh/<group>", typeOf[group.ServiceMesh](), Leader, 128 * kib,
		"The group's part in the service layer, as all accepted specs make it: the proxies of each member and their ports, and the routes that members may dial. Agents, the catalog and the peer maps go by it. Empty while the group has no part; removed with the group."},
	{"operations/<id>", typeOf[operation.Operation](), Leader, 32 * kib,
		"One Action being carried out. Written before the first effect; a successor continues from it."},
	{"rollouts/<id>", typeOf[operation.Rollout](), Leader, 16 * kib,
		"One rollout of a group: progress and history."},
	{"policy/slots/<slot>", typeOf[policy.SlotPolicy](), Leader, 32 * kib,
		"Which Revisions the Slot may run now and which Instance may be it. Admission checks its index in the transaction that admits."},
	{"policy/groups/<group>", typeOf[policy.GroupPolicy](), Leader, 320 * kib,
		"The order of the group's Revisions, the highest floor that was accepted, and the approvals in force. What an operator's key asks for counts once it is here; a floor never falls."},
	{TCBLedgerKey, typeOf[policy.TCBLedger](), Leader, 256 * kib,
		"The exceptions for machines that operators granted and that are in force, and a hash chain of grants, revocations, ends and lowered collateral marks, each with the operator. What an operator's key asks for counts once it is here."},
	{"admissions/<slot>", typeOf[policy.Admission](), Admitter, 16 * kib,
		"The Boot that holds the Slot, by check-and-set with generation + 1."},
	{"refusals/<slot>", typeOf[policy.Refusal](), Admitter, 8 * kib,
		"The last refused admission for the Slot, with the code that says why. Removed with the Slot, or 30 days after it was written when the Slot is gone."},
	{"proofs/<slot>", typeOf[policy.Proof](), Admitter, 12 * kib,
		"What a Boot of an unbound Instance proved by genuine evidence, while the records of the Slot are lost that its CVM is named after: `cadre group adopt` goes by it. Removed when the Slot is bound, or 30 days after it was written."},
	{"admission/nonces/<nonce>", typeOf[SpentNonce](), Admitter, 2 * kib,
		"A spent challenge. Created if absent in the transaction that admits, so that a nonce is used once across all coordinators."},
	{"decisions/<slot>", typeOf[policy.Decisions](), Admitter, 56 * kib,
		"The last decisions about Boots that claim the Slot with genuine evidence, as two hash chains, so that refusals push out no eviction, and the checks of the latest one. Removed 30 days after the last of them when the Slot is gone."},
	{"lease/boots/<slot>", typeOf[BootLease](), Admitter, 2 * kib,
		"The Boot lease: a coordinator that hears from the Boot holds the key while the Boot is the Slot, all of those that it keeps with one session. `state` is `offered` while its keeper does not hear the Boot, and says why a key that nobody holds was given up: `silent`, or `ended` by a farewell or an eviction. Removed with the decisions of a Slot that is gone."},
	{"collateral/<fmspc>", typeOf[policy.CollateralMark](), Admitter, 1 * kib,
		"The newest of Intel's collateral that was accepted for a family of machines, by check-and-set. A lower evaluation number is refused on every coordinator until the document with the higher one ended, and a clock before issued_at is not believed. `permit` is what an operator accepts below the numbers until the documents with these end."},
	{"control/pause/<group>", typeOf[Override](), Operator, 4 * kib,
		"While it exists and its time has not come, no step of the group's rollout and no removal begins. Healing, further members, drains and what is asked for by a Slot's name go on. Delete it to resume."},
	{"control/freeze/<scope>", typeOf[Override](), Operator, 4 * kib,
		"While it exists and its time has not come, nothing begins in the group, or for `_all` in any group: no rollout, no healing, no creation, no removal, no drain. Delete it to go on."},
	{"control/drain/<slot>", typeOf[Override](), Operator, 4 * kib,
		"While it exists and its time has not come, the Slot is out of service: it hands over what it leads, is drained, and nothing is done about it. Delete it to put the Slot back."},
	{"control/protect/<slot>", typeOf[Override](), Operator, 4 * kib,
		"While it exists and its time has not come, nothing begins that would disrupt the Slot or cost its disk. What is known to be down is restarted all the same."},
	{"control/exclude/<slot>", typeOf[Override](), Operator, 4 * kib,
		"While it exists and its time has not come, the Slot is left out of what `from` names: `rollout` keeps it at the revision that it has, `healing` leaves it as it is when it breaks by itself. Without `from` it is both. It counts in every budget and quorum, and what is asked for by its name is done."},
	{"control/approvals/<revision>", typeOf[policy.Approval](), Operator, 4 * kib,
		"A person approved this Revision as the compose hash in it. Delete it to take the approval back."},
	{"control/revocations/<revocation>", typeOf[policy.Revocation](), Operator, 4 * kib,
		"While it exists, the instance, Revision or key provider that its name says is not admitted, and is cut off at once. Whatever its value is."},
	{"control/floor/<scope>", typeOf[policy.Floor](), Operator, 4 * kib,
		"The oldest Revision of a group that may still be admitted; `_all` is for every group. Lowering or deleting it changes nothing: the leader keeps the highest."},
	{"control/tcb-exceptions/<id>", typeOf[policy.TCBGrant](), Operator, 4 * kib,
		"An exception for machines in one state, within the limits of `tcb.operator_exceptions` in the measured trust file. Delete it to take it back; `cadre admission tcb revoke` also records the operator who did. The leader deletes it when it has ended."},
	{"control/collateral/<fmspc>", typeOf[policy.CollateralLowering](), Operator, 4 * kib,
		"A request to use older collateral of a family of machines again. The leader writes the permit into `collateral/<fmspc>` and deletes the request."},
	{"control/require-approval", typeOf[RequireApproval](), Operator, 4 * kib,
		"While it exists, every group needs approvals, whatever its spec says."},
	{"control/queue/<id>", typeOf[QueueRequest](), Operator, 4 * kib,
		"A request: the restart, update or replacement of one Slot, its release from a hold, what became of an undecided platform call, or that a failed rollout goes on. The leader deletes it when it records what it does about it."},
	{"control/delete/<group>", typeOf[DeleteGroup](), Operator, 4 * kib,
		"While it exists, the group is taken down: every Slot, then its records, the spec and this switch. Only keep_cvms or only delete_disks says what becomes of the CVMs."},
	{"control/delete-disks/<group>", typeOf[DeleteDisks](), Operator, 128 * kib,
		"The Slots whose disks a scale-in may delete; without it a Slot with a disk that no preserved_state names stays. The leader deletes it when none of them is left, or when a spec wants one of them again."},
	{"control/adopt/<group>", typeOf[Adoption](), Operator, 64 * kib,
		"Running CVMs whose records are lost, as they attested themselves: the leader binds exactly these and deletes the request."},
	{"secrets/<group>/<secret>", typeOf[SecretRecord](), Leader, 4 * kib,
		"The epoch of a declared secret, never its value: coordinators derive that from their guest agent by group, name and epoch. secrets/cluster/gossip is Consul's gossip key. Never deleted: a secret that is declared again must not go back to an old value."},
	{"control/rotate/<group>/<secret>", typeOf[RotateRequest](), Operator, 4 * kib,
		"A request for a new epoch of a secret. The leader deletes it when it raises the epoch."},
	{"control/recover", typeOf[Recovery](), Operator, 4 * kib,
		"The way out of EPOCH_REGRESSION: the next Term is above this one, and the next state above this one. It only raises; it can be left or deleted afterwards. `cadre recover` writes it."},
	{"operators/<sha256>", typeOf[OperatorToken](), Coordinator, 1 * kib,
		"That the operators' token of this digest was made. Never deleted: a token that was deleted in Consul would be made again at its next use."},
	{LeaseKey, typeOf[LeaseRecord](), Leader, 4 * kib,
		"The lock of the leader: a Consul session holds the key. The value tells people who it is. Never deleted."},
	{TermKey, typeOf[TermRecord](), Leader, 1 * kib,
		"The Term, raised in the transaction that takes the lock. Every leader write checks the session on lease/coordinator and the index of this key."},
	{StateKey, typeOf[StateRecord](), Leader, 1 * kib,
		"How far the records have come: it grows with each Term, each recorded Operation, each platform call and at least every half minute. Agents keep the highest they saw, so that a restore within one Term is noticed. Never deleted."},
}

// KindOf finds the row of the table for key: ErrBadKey or ErrUnknownKey.
func KindOf(key string) (Kind, error) {
	if err := CheckKey(key); err != nil {
		return Kind{}, err
	}
	for _, kind := range Records {
		if kind.Matches(key) {
			return kind, nil
		}
	}
	return Kind{}, fmt.Errorf("%w: %q", ErrUnknownKey, key)
}

// Matches reports whether key belongs to k: literal segments equal, every
// variable segment well-formed.
func (k Kind) Matches(key string) bool {
	// Each read looks its record up here, so the search allocates nothing.
	for pattern := k.Pattern; ; {
		p, patterns, more := strings.Cut(pattern, "/")
		segment, segments, longer := strings.Cut(key, "/")
		grammar, variable := variables[p]
		switch {
		case more != longer, variable && !grammar.MatchString(segment), !variable && p != segment:
			return false
		case !more:
			return true
		}
		pattern, key = patterns, segments
	}
}

var variables = map[string]grammar{
	"<group>":  nameGrammar,
	"<slot>":   nameGrammar,
	"<route>":  nameGrammar,
	"<secret>": nameGrammar,
	"<digest>": idGrammar,
	"<id>":     idGrammar,
	"<nonce>":  nonceGrammar,
	// A Revision; kind-id; a group or _all.
	"<revision>":   idGrammar,
	"<revocation>": revocationGrammar,
	"<scope>":      scopeGrammar,
	"<fmspc>":      fmspcGrammar,
	"<hash>":       sha256Grammar,
	"<sha256>":     sha256Grammar,
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }
