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

//go:generate go run ./internal/gendocs -o ../../docs/reference/kv.md

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
	// Bootstrap is the first coordinator whose Consul has a leader; it creates missing records. They
	// are never written again.
	Bootstrap Writer = "bootstrap"
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

// Records is the table of all records. docs/reference/kv.md is generated from it.
var Records = []Kind{
	{ClusterIDKey, typeOf[ClusterIDRecord](), Bootstrap, 1 * kib,
		"The cluster ID that these records belong to. Created once, by check-and-set, in an empty store; never changed or deleted. Coordinators halt when it differs from the one on their disks, or when it is missing while other records exist."},
	{"groups/<group>/spec", typeOf[group.Spec](), Operator, group.MaxSpecBytes,
		"The operators' desired state of the group. An edit starts a rollout. An invalid spec changes nothing and becomes a condition in the status."},
	{"groups/<group>/accepted", typeOf[AcceptedSpec](), Leader, group.MaxSpecBytes + 32*kib,
		"The last spec that the leader accepted. The group runs under it on every coordinator: an edit of the spec takes effect once it is here. A rejected edit, or the removal of the spec, changes nothing."},
	{"applied/<group>", typeOf[Applied](), Coordinator, 2 * kib,
		"The token's name and the request's id of the last API call that wrote the group's spec. Written in one transaction with the spec: while both have the same modify index, the spec is from that call. A spec with another index was written to Consul KV directly."},
	{"groups/<group>/status", typeOf[group.Status](), Leader, 96 * kib,
		"The leader's view of the group and its actions, with reasons. observed_index is the modify index of the evaluated spec. Written without instances: each Slot has its own record."},
	{"groups/<group>/slots/<slot>", typeOf[group.InstanceStatus](), Leader, 16 * kib,
		"The leader's view of one Slot, and the holds of its next step. Written when it changes, removed with the Slot. No decision depends on it."},
	{"revisions/<digest>", typeOf[group.RevisionRecord](), Leader, group.MaxSpecBytes + 8*kib,
		"Content of one Revision. The content is written once and never changed; the compose hash changes when its app-compose.json is rendered again."},
	{"app-compose/<hash>", typeOf[policy.Document](), Leader, 352 * kib,
		"The app-compose.json with this compose hash, compressed: judged before the hash was allowed for any Slot. Removed when no Revision and no policy names the hash any more."},
	{"slots/<group>/<slot>", typeOf[group.SlotRecord](), Leader, 8 * kib,
		"Binding of a Slot to the Instance that fills it, and the Revision assigned to it."},
	{"addresses/<group>", typeOf[address.Given](), Leader, 32 * kib,
		"The blocks of virtual addresses for the group's Slots. Blocks stay reserved while the group exists. The record is removed a day after the last trace of the group, and until then no other group gets its addresses."},
	{"routes/<route>", typeOf[route.Record](), Leader, 1 * kib,
		"The virtual address of a route. It is assigned once and never removed or reassigned: an address that an application remembers leads to that route or nowhere. `group` declares the route, or did last."},
	{"servicemesh/<group>", typeOf[group.ServiceMesh](), Leader, 128 * kib,
		"The group's part in the service layer, computed from all accepted specs: the proxies of each member and their ports, and the routes that members may dial. Agents, the catalog and the peer maps use it. Empty while the group has no part; removed with the group."},
	{"operations/<id>", typeOf[operation.Operation](), Leader, 32 * kib,
		"One Action in progress. Written before the first effect; the next leader continues from it."},
	{"rollouts/<id>", typeOf[operation.Rollout](), Leader, 16 * kib,
		"One rollout of a group: progress and history."},
	{"policy/slots/<slot>", typeOf[policy.SlotPolicy](), Leader, 32 * kib,
		"The Revisions that the Slot may run now, and the Instance that may hold it. Admission checks its index in the transaction that admits."},
	{"policy/groups/<group>", typeOf[policy.GroupPolicy](), Leader, 320 * kib,
		"The order of the group's Revisions, the highest accepted floor, and the approvals in force. An operator's record takes effect once it is included here; a floor never falls."},
	{TCBLedgerKey, typeOf[policy.TCBLedger](), Leader, 256 * kib,
		"The operators' exceptions for machines in force, and a hash chain of grants, revocations, ends and lowered collateral, each with the operator. An operator's record takes effect once it is included here."},
	{"admissions/<slot>", typeOf[policy.Admission](), Admitter, 16 * kib,
		"The Boot that holds the Slot, by check-and-set with generation + 1."},
	{"refusals/<slot>", typeOf[policy.Refusal](), Admitter, 8 * kib,
		"The last refused admission for the Slot, with the reason code. Removed with the Slot, or, if the Slot is gone, 30 days after it was written."},
	{"proofs/<slot>", typeOf[policy.Proof](), Admitter, 12 * kib,
		"The genuine evidence of a Boot of an unbound Instance, while the records of the Slot in its CVM's name are lost: `cadre group adopt` uses it. Removed when the Slot is bound, or 30 days after it was written."},
	{"admission/nonces/<nonce>", typeOf[SpentNonce](), Admitter, 2 * kib,
		"A spent challenge. Created if absent in the transaction that admits, so that a nonce is used once across all coordinators."},
	{"decisions/<slot>", typeOf[policy.Decisions](), Admitter, 56 * kib,
		"The last decisions about Boots that claim the Slot with genuine evidence, and the checks of the latest one. There are two hash chains, so that refusals cannot displace evictions. Removed 30 days after the last decision when the Slot is gone."},
	{"lease/boots/<slot>", typeOf[BootLease](), Admitter, 2 * kib,
		"The Boot lease. A coordinator that hears from the Boot holds the key while the Boot holds the Slot; one session holds all keys of a coordinator. `state` is `offered` while that coordinator does not hear from the Boot. Of a free key it is the reason: `silent`, or `ended` by a farewell or an eviction. Removed with the decisions of a Slot that is gone."},
	{"collateral/<fmspc>", typeOf[policy.CollateralWatermark](), Admitter, 1 * kib,
		"The newest of Intel's collateral that was accepted for a family of machines, by check-and-set. Every coordinator rejects a lower evaluation number until the document with the higher one has expired, and a clock before issued_at. `permit` is the older collateral that an operator permits until those documents expire."},
	{"control/pause/<group>", typeOf[Override](), Operator, 4 * kib,
		"While it exists and has not expired, no step of the group's rollout and no removal begins. Healing, additional members, drains and requests for a named Slot continue. Delete it to resume."},
	{"control/freeze/<scope>", typeOf[Override](), Operator, 4 * kib,
		"While it exists and has not expired, no action begins in the group, or for `_all` in any group: no rollout, no healing, no creation, no removal, no drain. Delete it to resume."},
	{"control/drain/<slot>", typeOf[Override](), Operator, 4 * kib,
		"While it exists and has not expired, the Slot is out of service: it hands over its leadership, is drained, and gets no further action. Delete it to put the Slot back into service."},
	{"control/protect/<slot>", typeOf[Override](), Operator, 4 * kib,
		"While it exists and has not expired, no action begins that would disrupt the Slot or delete its disk. A Slot that is known to be down is still restarted."},
	{"control/exclude/<slot>", typeOf[Override](), Operator, 4 * kib,
		"While it exists and has not expired, the Slot is left out of the activities in `from`: `rollout` keeps its revision, and `healing` leaves a failed Slot as it is. Without `from` both apply. The Slot counts in every budget and quorum, and requests with its name are carried out."},
	{"control/approvals/<revision>", typeOf[policy.Approval](), Operator, 4 * kib,
		"An operator approved this Revision with its compose hash. Delete it to withdraw the approval."},
	{"control/revocations/<revocation>", typeOf[policy.Revocation](), Operator, 4 * kib,
		"While it exists, the instance, Revision or key provider in its name is not admitted, and is cut off at once. The value does not matter."},
	{"control/floor/<scope>", typeOf[policy.Floor](), Operator, 4 * kib,
		"The oldest Revision of a group that may still be admitted; `_all` is for every group. Lowering or deleting it changes nothing: the leader keeps the highest."},
	{"control/tcb-exceptions/<id>", typeOf[policy.TCBGrant](), Operator, 4 * kib,
		"An exception for machines in one state, within the limits of `tcb.operator_exceptions` in the measured trust file. Delete it to end the exception; `cadre admission tcb revoke` also records the operator. The leader deletes it when it has ended."},
	{"control/collateral/<fmspc>", typeOf[policy.CollateralLowering](), Operator, 4 * kib,
		"A request to permit older collateral of a family of machines again. The leader writes the permit into `collateral/<fmspc>` and deletes the request."},
	{"control/require-approval", typeOf[RequireApproval](), Operator, 4 * kib,
		"While it exists, every group needs approvals, regardless of its spec."},
	{"control/queue/<id>", typeOf[QueueRequest](), Operator, 4 * kib,
		"A request: the restart, update or replacement of one Slot, its release from a hold, the resolution of an undecided platform call, or the retry of a failed rollout. The leader deletes it in the transaction that records the resulting action."},
	{"control/delete/<group>", typeOf[DeleteGroup](), Operator, 4 * kib,
		"While it exists, the group is deleted: every Slot, then its records, the spec and this switch. Exactly one of keep_cvms and delete_disks determines the fate of the CVMs."},
	{"control/delete-disks/<group>", typeOf[DeleteDisks](), Operator, 128 * kib,
		"The Slots whose disks a scale-in may delete. A Slot whose disk no preserved_state names stays without it. The leader deletes it when none of the Slots is left, or when a spec wants one of them again."},
	{"control/adopt/<group>", typeOf[Adoption](), Operator, 64 * kib,
		"Running CVMs with lost records, as they attested themselves: the leader binds exactly these and deletes the request."},
	{"secrets/<group>/<secret>", typeOf[SecretRecord](), Leader, 4 * kib,
		"The epoch of a declared secret, never its value: coordinators derive the value from their guest agent by group, name and epoch. secrets/cluster/gossip is Consul's gossip key. Never deleted: a secret that is declared again must not return to an old value."},
	{"control/rotate/<group>/<secret>", typeOf[RotateRequest](), Operator, 4 * kib,
		"A request for a new epoch of a secret. The leader deletes it when it raises the epoch."},
	{"control/recover", typeOf[Recovery](), Operator, 4 * kib,
		"The remedy for EPOCH_REGRESSION: the next Term is above this one, and the next state above this one. It only raises; it can stay or be deleted afterwards. `cadre cluster accept-restore` writes it."},
	{"operators/<sha256>", typeOf[OperatorToken](), Coordinator, 1 * kib,
		"Records that the operators' token of this digest was created. Never deleted: otherwise a token that was deleted in Consul would be created again at its next use."},
	{LeaseKey, typeOf[LeaseRecord](), Leader, 4 * kib,
		"The lock of the leader: a Consul session holds the key. The value names the leader for human readers. Never deleted."},
	{TermKey, typeOf[TermRecord](), Leader, 1 * kib,
		"The Term, raised in the transaction that takes the lock. Every leader write checks the session on lease/coordinator and the index of this key."},
	{StateKey, typeOf[StateRecord](), Leader, 1 * kib,
		"The watermark of the records: it grows with each Term, each recorded Operation, each platform call and at least every half minute. Agents keep the highest one they saw, so that a restore within one Term is noticed. Never deleted."},
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
