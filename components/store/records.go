package store

import (
	"fmt"
	"reflect"
	"strings"

	"cadre.dev/core/address"
	"cadre.dev/core/audit"
	"cadre.dev/core/deployment"
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
		"The cluster ID of these records, written once into an empty store. A coordinator stops if this ID differs from the ID on its disk, or is absent while other records exist."},
	{"groups/<group>/spec", typeOf[group.Spec](), Operator, group.MaxSpecBytes,
		"The desired state of the group. An edit starts a rollout. An invalid spec becomes a condition of the status and changes nothing."},
	{"groups/<group>/accepted", typeOf[AcceptedSpec](), Leader, group.MaxSpecBytes + 32*kib,
		"The last accepted spec, by which all coordinators run the group. A rejected edit, or the removal of the spec, leaves this record as it is."},
	{"applied/<group>", typeOf[Applied](), Coordinator, 2 * kib,
		"Token name and request ID of the last API call that wrote the spec, from the same transaction. If the modify indexes differ, the spec was written to Consul KV directly."},
	{"deployments/<deployment>", typeOf[deployment.Record](), Coordinator, 96 * kib,
		"The versions of a deployment, the present one last, each with the digests of its groups' specs. A coordinator writes this record in the transaction that writes the specs, for a caller who may write each of them. The leader does not read it."},
	{"deployment-specs/<deployment>/<sha256>", typeOf[group.Spec](), Coordinator, group.MaxSpecBytes,
		"A spec that a version of the deployment refers to by the digest of its text. Written before the version, and removed when no kept version refers to it."},
	{"groups/<group>/status", typeOf[group.Status](), Leader, 96 * kib,
		"Conditions, counts and actions of the group, with reasons. `observed_index` is the modify index of the evaluated spec."},
	{"groups/<group>/slots/<slot>", typeOf[group.InstanceStatus](), Leader, 16 * kib,
		"State of one Slot, and the holds of its next step. Written at a change, removed with the Slot. Decisions ignore this record."},
	{"revisions/<digest>", typeOf[group.RevisionRecord](), Leader, group.MaxSpecBytes + 8*kib,
		"Content of one Revision, immutable. Its compose hash changes when its app-compose.json is rendered again."},
	{"app-compose/<hash>", typeOf[policy.Document](), Leader, 352 * kib,
		"The app-compose.json with this compose hash, compressed, judged before the hash was allowed. Removed with the last Revision and policy that name the hash."},
	{"slots/<group>/<slot>", typeOf[group.SlotRecord](), Leader, 8 * kib,
		"Binding of a Slot to its Instance, and its assigned Revision."},
	{"addresses/<group>", typeOf[address.Given](), Leader, 32 * kib,
		"Blocks of virtual addresses for the group's Slots. Removed a day after the last trace of the group; until then the addresses stay reserved."},
	{"routes/<route>", typeOf[route.Record](), Leader, 1 * kib,
		"The virtual address of a route, assigned once and permanently. `group` is the present or last group that declares the route."},
	{"servicemesh/<group>", typeOf[group.ServiceMesh](), Leader, 128 * kib,
		"The group's part in the service layer, from all accepted specs: proxies and ports of each member, and the routes that its members may dial. Removed with the group."},
	{"operations/<id>", typeOf[operation.Operation](), Leader, 32 * kib,
		"One Action in progress, written before the first effect. The next leader continues from this record."},
	{"rollouts/<id>", typeOf[operation.Rollout](), Leader, 16 * kib,
		"Progress and history of one rollout."},
	{"policy/slots/<slot>", typeOf[policy.SlotPolicy](), Leader, 32 * kib,
		"The Revisions that the Slot may run, and the Instance that may hold the Slot. Admission checks the index of this record in its transaction."},
	{"policy/groups/<group>", typeOf[policy.GroupPolicy](), Leader, 320 * kib,
		"Order of the group's Revisions, highest accepted floor, and approvals in force. An operator's record counts once it is included here."},
	{TCBLedgerKey, typeOf[policy.TCBLedger](), Leader, 256 * kib,
		"The exceptions for machines in force, and a hash chain of grants, revocations, ends and lowered collateral, each with the operator. An operator's record counts once it is included here."},
	{"admissions/<slot>", typeOf[policy.Admission](), Admitter, 16 * kib,
		"The Boot that holds the Slot, by check-and-set with generation + 1."},
	{"refusals/<slot>", typeOf[policy.Refusal](), Admitter, 8 * kib,
		"The last refused admission for the Slot, with its code. Removed with the Slot; without a Slot, 30 days after the write."},
	{"proofs/<slot>", typeOf[policy.Proof](), Admitter, 12 * kib,
		"Genuine evidence of a Boot whose Slot records are lost, for `cadre group adopt`. Removed when the Slot is bound, or 30 days after the write."},
	{"machines/<slot>", typeOf[policy.MachineRecord](), Admitter, 2 * kib,
		"The machine that the Slot's Instance showed in its last evidence, by a keyed hash. Written at a change, in the transaction that admits; a change for the same Instance also enters the decisions. Removed with the Slot."},
	{"machine-turns/<group>", typeOf[policy.MachineTurn](), Admitter, 1 * kib,
		"The last admission that took a machine for a Slot of a group with `placement.verified`, by check-and-set, so that two at the same time do not take one machine."},
	{"admission/nonces/<nonce>", typeOf[SpentNonce](), Admitter, 2 * kib,
		"A spent challenge, created in the transaction that admits, so that all coordinators accept a nonce once."},
	{"decisions/<slot>", typeOf[policy.Decisions](), Admitter, 56 * kib,
		"The last decisions about Boots with genuine evidence that claim the Slot, and the checks of the latest Boot. Refusals and evictions have a hash chain each. Without a Slot, removed 30 days after the last decision."},
	{"lease/boots/<slot>", typeOf[BootLease](), Admitter, 2 * kib,
		"The Boot lease: the session of the coordinator that hears the Boot holds the key. `state` is `offered` while that coordinator does not hear the Boot; for a free key, `silent`, or `ended` by a farewell or an eviction. Removed with the decisions of a removed Slot."},
	{"collateral/<fmspc>", typeOf[policy.CollateralWatermark](), Admitter, 1 * kib,
		"The newest accepted collateral of Intel for a family of machines. Coordinators reject a lower evaluation number until the newer document expires, and a clock before `issued_at`. `permit` is the older collateral that an operator permits until then."},
	{"control/pause/<group>", typeOf[Override](), Operator, 4 * kib,
		"Steps of the group's rollout, and removals, wait. Healing, extra members, drains and requests for a named Slot continue."},
	{"control/freeze/<scope>", typeOf[Override](), Operator, 4 * kib,
		"No action begins in the group; with `_all`, in any group: rollout, healing, creation, removal, drain."},
	{"control/drain/<slot>", typeOf[Override](), Operator, 4 * kib,
		"The Slot is out of service: leadership moves, the Slot is drained, and all further actions wait."},
	{"control/protect/<slot>", typeOf[Override](), Operator, 4 * kib,
		"No action begins that would disrupt the Slot or delete its disk. A Slot that is known to be down is still restarted."},
	{"control/exclude/<slot>", typeOf[Override](), Operator, 4 * kib,
		"The activities in `from` leave the Slot out: `rollout` keeps its revision, `healing` leaves a failure alone. Without `from` both apply. The Slot counts in every budget and quorum, and accepts requests with its name."},
	{"control/gate/<group>/<gate>", typeOf[Override](), Operator, 4 * kib,
		"Opens or closes a gate of the group's spec. Without the record the gate has its `default`. A record that cannot be read closes the gate."},
	{"control/gate/<group>/<gate>/<slot>", typeOf[Override](), Operator, 4 * kib,
		"Opens a gate with `per = \"slot\"` for the one step of the Slot that has the record's `ticket`. It opens no earlier or later step."},
	{"control/override/<group>/<hold>", typeOf[Override](), Operator, 4 * kib,
		"Passes one named hold of the group's steps until `until`, at most 24 hours, while `rollout` is the group's rollout that is not over. Without `until` or `reason`, and for a hold outside of the [list](../guides/control.md#override-a-hold), it passes nothing."},
	{"control/approvals/<revision>", typeOf[policy.Approval](), Operator, 4 * kib,
		"The approval of this Revision with its compose hash. A deletion withdraws the approval."},
	{"control/revocations/<revocation>", typeOf[policy.Revocation](), Operator, 4 * kib,
		"While the record exists, the instance, Revision or key provider in its name is cut off and not admitted. The value is ignored."},
	{"control/floor/<scope>", typeOf[policy.Floor](), Operator, 4 * kib,
		"The oldest admissible Revision of a group; `_all`: of every group. The leader keeps the highest floor, so a lower value or a deletion has no effect."},
	{"control/tcb-exceptions/<id>", typeOf[policy.TCBGrant](), Operator, 4 * kib,
		"An exception for machines in one state, within `tcb.operator_exceptions` of the measured trust file. A deletion ends the exception; `cadre admission tcb revoke` also records the operator. The leader deletes an ended exception."},
	{"control/collateral/<fmspc>", typeOf[policy.CollateralLowering](), Operator, 4 * kib,
		"A request to permit older collateral again. The leader moves the permit to `collateral/<fmspc>`."},
	{"control/require-approval", typeOf[RequireApproval](), Operator, 4 * kib,
		"While the record exists, every group needs approvals, regardless of its spec."},
	{"control/limits", typeOf[Limits](), Operator, 4 * kib,
		"Limits for all groups together: open steps of rollouts, groups with a rollout in work, open creations. A field that is absent is no limit. While the record cannot be read, no such work begins. Repairs and requests for a named Slot do not count."},
	{"control/queue/<id>", typeOf[QueueRequest](), Operator, 4 * kib,
		"A request: restart, update, replace or release one Slot, resolve an undecided platform call, or retry a failed rollout. The leader deletes the request in the transaction that records the action."},
	{"control/delete/<group>", typeOf[DeleteGroup](), Operator, 4 * kib,
		"While the record exists, the group is deleted: Slots, records, spec, then this record. Exactly one of `keep_cvms` and `delete_disks` decides about the CVMs."},
	{"control/delete-disks/<group>", typeOf[DeleteDisks](), Operator, 128 * kib,
		"The Slots whose disks a scale-in may delete. A disk outside of `preserved_state` needs no entry. The leader deletes the record when no named Slot is left, or when a spec wants one again."},
	{"control/adopt/<group>", typeOf[Adoption](), Operator, 64 * kib,
		"Running CVMs with lost records, by their own evidence. The leader binds exactly these CVMs and deletes the request."},
	{"secrets/<group>/<secret>", typeOf[SecretRecord](), Leader, 4 * kib,
		"The epoch of a declared secret. Coordinators derive the value by group, name and epoch; `sealed` names the ciphertext of an operator's value. `secrets/cluster/gossip` is Consul's gossip key. Kept permanently, so that old values stay retired."},
	{"control/rotate/<group>/<secret>", typeOf[RotateRequest](), Operator, 4 * kib,
		"A request for a new epoch of a secret. The leader deletes the request when it raises the epoch."},
	{"sealed/<group>/<secret>", typeOf[SealedSecret](), Leader, 96 * kib,
		"The ciphertext of an operator's secret, for the epoch in `secrets/<group>/<secret>`. Only coordinators of this cluster ID can open it, and only as this secret and epoch. Removed with the declaration."},
	{"control/seal/<group>/<secret>", typeOf[SealRequest](), Operator, 96 * kib,
		"A ciphertext that becomes the next epoch of an operator's secret, written by `cadre secret set`. The leader moves a ciphertext that opens to `sealed/<group>/<secret>`, and deletes every other request."},
	{"control/recover", typeOf[Recovery](), Operator, 4 * kib,
		"The remedy for `EPOCH_REGRESSION`, written by `cadre cluster accept-restore`: the next Term and the next state are above these numbers. The record may stay."},
	{"control/operators/<operator>", typeOf[OperatorRecord](), Operator, 8 * kib,
		"An operator: role, groups, and the digest and end of the token. Removal of the record ends the token."},
	{"operators/<sha256>", typeOf[OperatorToken](), Coordinator, 1 * kib,
		"The operator's token with this digest was created. Kept permanently, so that a token deleted in Consul stays deleted."},
	{"audit/<number>", typeOf[audit.Entry](), Coordinator, audit.MaxEntryBytes,
		"One entry of the audit chain: an act of an operator or the leader, written in the transaction of the act, with the digest of the entry before. The number has 12 digits. The leader removes the oldest entries beyond 10,000 after it wrote them to its log."},
	{AuditHeadKey, typeOf[audit.Head](), Coordinator, 1 * kib,
		"The number and digest of the last entry of the audit chain, and those of the last removed entry (`checkpoint`). Every entry moves this record by check-and-set."},
	{LastBackupKey, typeOf[LastBackup](), Operator, 4 * kib,
		"Time and digest of the last backup, written by `cadre cluster backup` with the operator's own token. The right to write this key is the right to take a backup."},
	{RestoredKey, typeOf[Restored](), Coordinator, 1 * kib,
		"The backup that these records come from. A restore writes this record first and `cluster_id` last. All coordinators halt until an operator raises the state to `state`. Kept permanently."},
	{LeaseKey, typeOf[LeaseRecord](), Leader, 4 * kib,
		"The lock of the leader, held by a Consul session. The value names the leader. Kept permanently."},
	{TermKey, typeOf[TermRecord](), Leader, 1 * kib,
		"The Term, raised in the transaction that takes the lock. Every leader write checks the index of this key."},
	{StateKey, typeOf[StateRecord](), Leader, 1 * kib,
		"The watermark of the records. The number grows with each Term, Operation and platform call, and every half minute. Agents remember the highest number and so notice a restore within one Term. Kept permanently."},
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
	"<group>":      nameGrammar,
	"<slot>":       nameGrammar,
	"<route>":      nameGrammar,
	"<secret>":     nameGrammar,
	"<gate>":       nameGrammar,
	"<hold>":       holdGrammar,
	"<operator>":   nameGrammar,
	"<deployment>": nameGrammar,
	"<digest>":     idGrammar,
	"<id>":         idGrammar,
	"<nonce>":      nonceGrammar,
	// A Revision; kind-id; a group or _all.
	"<revision>":   idGrammar,
	"<revocation>": revocationGrammar,
	"<scope>":      scopeGrammar,
	"<fmspc>":      fmspcGrammar,
	"<number>":     numberGrammar,
	"<hash>":       sha256Grammar,
	"<sha256>":     sha256Grammar,
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }
