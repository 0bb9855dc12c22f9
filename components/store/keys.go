package store

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Prefixes of the records, for List, ReadAll and Watch.
const (
	GroupsPrefix      = "groups/"
	DeploymentsPrefix = "deployments/"
	RevisionsPrefix   = "revisions/"
	AppComposePrefix  = "app-compose/"
	SlotsPrefix       = "slots/"
	AddressesPrefix   = "addresses/"
	RoutesPrefix      = "routes/"
	ServiceMeshPrefix = "servicemesh/"
	OperationsPrefix  = "operations/"
	RolloutsPrefix    = "rollouts/"
	PolicyPrefix      = "policy/slots/"
	AdmissionsPrefix  = "admissions/"
	RefusalsPrefix    = "refusals/"
	ProofsPrefix      = "proofs/"
	MachinesPrefix    = "machines/"
	NoncesPrefix      = "admission/nonces/"
	CollateralPrefix  = "collateral/"
	// GroupPolicyPrefix has the policies that the leader accepted, by group.
	GroupPolicyPrefix = "policy/groups/"
	ControlPrefix     = "control/"
	ApprovalsPrefix   = "control/approvals/"
	RevocationsPrefix = "control/revocations/"
	FloorPrefix       = "control/floor/"
	// TCBExceptionsPrefix has the operators' exceptions for machines, and LoweringsPrefix their
	// permits for older collateral.
	TCBExceptionsPrefix = "control/tcb-exceptions/"
	LoweringsPrefix     = "control/collateral/"
	QueuePrefix         = "control/queue/"
	DeletePrefix        = "control/delete/"
	DeleteDisksPrefix   = "control/delete-disks/"
	AdoptPrefix         = "control/adopt/"
	LeasePrefix         = "lease/"
	BootLeasePrefix     = "lease/boots/"
	DecisionsPrefix     = "decisions/"
	SecretsPrefix       = "secrets/"
	RotatePrefix        = "control/rotate/"
	// SealedPrefix has the ciphertexts of operators' secrets, and SealPrefix the requests for new ones.
	SealedPrefix    = "sealed/"
	SealPrefix      = "control/seal/"
	OperatorsPrefix = "operators/"
	AuditPrefix     = "audit/"
	// OperatorRecordsPrefix has the operators with tokens of their own.
	OperatorRecordsPrefix = "control/operators/"
)

const (
	// ClusterIDKey has the cluster ID of these records. It is written once.
	ClusterIDKey = "cluster_id"
	// LeaseKey is locked by the leader's session. It is never deleted.
	LeaseKey = "lease/coordinator"
	// TermKey carries the Term; its modify index is the fence.
	TermKey = "lease/term"
	// TCBLedgerKey has the exceptions and lowerings that the leader accepted.
	TCBLedgerKey = "policy/tcb"
	// StateKey has the state, which grows with the leader's changes.
	StateKey = "lease/state"
	// AuditHeadKey has the end of the audit chain.
	AuditHeadKey = "audit/head"
)

// maxKeyBytes is Consul's practical bound with room for the prefix.
const maxKeyBytes = 400

// GroupSpecKey is the operators' desired state of group g.
func GroupSpecKey(g string) string { return key("groups", name(g), "spec") }

// GroupAcceptedKey is the last valid spec of group g, written by the leader.
func GroupAcceptedKey(g string) string { return key("groups", name(g), "accepted") }

// AppliedKey names the caller that applied the spec of group g; a coordinator writes it.
func AppliedKey(g string) string { return key("applied", name(g)) }

// GroupStatusKey is the leader's report about group g.
func GroupStatusKey(g string) string { return key("groups", name(g), "status") }

// SlotStatusKey is the leader's report about a Slot of group g.
func SlotStatusKey(g, slot string) string { return key("groups", name(g), "slots", name(slot)) }

// SlotStatusesOf is the prefix of the reports about the Slots of group g.
func SlotStatusesOf(g string) string { return key("groups", name(g), "slots") + "/" }

// DeploymentKey has the versions of a deployment.
func DeploymentKey(deployment string) string { return key("deployments", name(deployment)) }

// DeploymentSpecKey has a spec that a version of a deployment refers to by its digest.
func DeploymentSpecKey(deployment, digest string) string {
	return key("deployment-specs", name(deployment), segment(sha256Grammar, digest))
}

// DeploymentSpecsOf is the prefix of the specs of a deployment's versions.
func DeploymentSpecsOf(deployment string) string {
	return key("deployment-specs", name(deployment)) + "/"
}

// RevisionKey is the immutable content of the Revision with digest d.
func RevisionKey(d string) string { return key("revisions", id(d)) }

// AppComposeKey is the record of the document with this compose hash.
func AppComposeKey(hash string) string { return key("app-compose", segment(sha256Grammar, hash)) }

// SlotKey binds slot of group g to its Instance.
func SlotKey(g, slot string) string { return key("slots", name(g), name(slot)) }

// SlotsOf is the prefix of the Slot records of group g.
func SlotsOf(g string) string { return key("slots", name(g)) + "/" }

// AddressesKey has the virtual addresses of group g.
func AddressesKey(g string) string { return key("addresses", name(g)) }

// RouteKey has the virtual address of route r.
func RouteKey(r string) string { return key("routes", name(r)) }

// ServiceMeshKey is the part of group g in the service layer.
func ServiceMeshKey(g string) string { return key("servicemesh", name(g)) }

// OperationKey is one Action in progress.
func OperationKey(op string) string { return key("operations", id(op)) }

// RolloutKey is one entry of the rollout history.
func RolloutKey(r string) string { return key("rollouts", id(r)) }

// SlotPolicyKey has the Revisions that slot may run now.
func SlotPolicyKey(slot string) string { return key("policy", "slots", name(slot)) }

// AdmissionKey is the admission of slot's current Boot.
func AdmissionKey(slot string) string { return key("admissions", name(slot)) }

// RefusalKey is the last refused admission for slot.
func RefusalKey(slot string) string { return key("refusals", name(slot)) }

// ProofKey is the evidence of a Boot that no record binds to slot.
func ProofKey(slot string) string { return key("proofs", name(slot)) }

// MachineKey has the machine that the Instance of slot showed last.
func MachineKey(slot string) string { return key("machines", name(slot)) }

// MachineTurnKey is written by each admission that takes a machine for a Slot of group g.
func MachineTurnKey(g string) string { return key("machine-turns", name(g)) }

// BootLeaseKey is locked by the session of the coordinator that keeps the lease of slot's Boot.
func BootLeaseKey(slot string) string { return key("lease", "boots", name(slot)) }

// DecisionsKey has the last decisions about Boots that claim slot.
func DecisionsKey(slot string) string { return key("decisions", name(slot)) }

// NonceKey marks the challenge nonce n (hex) as spent.
func NonceKey(n string) string { return key("admission", "nonces", nonce(n)) }

// CollateralKey is the newest collateral seen for the machines of the family fmspc.
func CollateralKey(fmspc string) string { return key("collateral", segment(fmspcGrammar, fmspc)) }

// OverrideKey is the operator's override of a kind. scope is its group or Slot; a freeze can have
// Everywhere, a gate has GateScope's form, and a hold has HoldScope's form.
func OverrideKey(kind OverrideKind, scope string) string {
	switch kind {
	case OverrideFreeze:
		return key("control", string(kind), segment(scopeGrammar, scope))
	case OverrideGate:
		if _, _, _, ok := GateScope(scope); !ok {
			return badMark + strconv.Quote(scope[:min(len(scope), 80)])
		}
		return key("control", string(kind), scope)
	case OverrideHold:
		if _, _, ok := HoldScope(scope); !ok {
			return badMark + strconv.Quote(scope[:min(len(scope), 80)])
		}
		return key("control", string(kind), scope)
	case OverridePause, OverrideDrain, OverrideProtect, OverrideExclude:
	}
	return key("control", string(kind), name(scope))
}

// GroupPolicyKey is the order of group g's Revisions and its accepted policy.
func GroupPolicyKey(g string) string { return key("policy", "groups", name(g)) }

// ApprovalKey approves a Revision.
func ApprovalKey(revision string) string { return key("control", "approvals", id(revision)) }

// RevocationKey revokes an instance, a Revision or a key provider: kind-id.
func RevocationKey(name string) string {
	return key("control", "revocations", segment(revocationGrammar, name))
}

// FloorKey is the security floor of group g, or of all groups for Everywhere.
func FloorKey(g string) string { return key("control", "floor", segment(scopeGrammar, g)) }

// TCBExceptionKey is an exception that an operator granted for machines.
func TCBExceptionKey(i string) string { return key("control", "tcb-exceptions", id(i)) }

// LoweringKey permits older collateral for the machines of the family fmspc.
func LoweringKey(fmspc string) string {
	return key("control", "collateral", segment(fmspcGrammar, fmspc))
}

// Everywhere means all groups in FloorKey and OverrideKey; no group can have this name.
const Everywhere = "_all"

// LimitsKey is the record of the limits for all groups together.
func LimitsKey() string { return "control/limits" }

// RequireApprovalKey is the switch that demands approvals from every group.
func RequireApprovalKey() string { return "control/require-approval" }

// QueueKey is one request of an operator, e.g. a restart of a Slot.
func QueueKey(request string) string { return key("control", "queue", id(request)) }

// DeleteGroupKey is the operator's switch that deletes group g.
func DeleteGroupKey(g string) string { return key("control", "delete", name(g)) }

// DeleteDisksKey names the Slots of group g whose disks a scale-in may delete.
func DeleteDisksKey(g string) string { return key("control", "delete-disks", name(g)) }

// AdoptKey names the running CVMs that become members of group g.
func AdoptKey(g string) string { return key("control", "adopt", name(g)) }

// SecretKey is the epoch of a secret of group g; with ClusterSecrets for g, that of the cluster's
// own key.
func SecretKey(g, secret string) string { return key("secrets", name(g), name(secret)) }

// SecretsOf is the prefix of the epochs of the secrets of group g.
func SecretsOf(g string) string { return key("secrets", name(g)) + "/" }

// RotateKey requests a new epoch of a secret.
func RotateKey(g, secret string) string { return key("control", "rotate", name(g), name(secret)) }

// SealedKey has the ciphertext of the operator's secret of group g.
func SealedKey(g, secret string) string { return key("sealed", name(g), name(secret)) }

// SealKey requests a new value of the operator's secret of group g.
func SealKey(g, secret string) string { return key("control", "seal", name(g), name(secret)) }

// OperatorTokenKey records that the operators' token with the digest sha256 was created.
func OperatorTokenKey(sha256 string) string {
	return key("operators", segment(sha256Grammar, sha256))
}

// AuditKey is entry n of the audit chain.
func AuditKey(n uint64) string { return key("audit", segment(numberGrammar, fmt.Sprintf("%012d", n))) }

// OperatorKey is the operator with this name.
func OperatorKey(operator string) string { return key("control", "operators", name(operator)) }

// RecoverKey is the operator's record that raises Term and state.
func RecoverKey() string { return "control/recover" }

// Every name is matched as bytes against one grammar, as narrow as its strictest consumer (IDN-02).
// A name never contains a slash.
var (
	nameGrammar = plain{first: "abcdefghijklmnopqrstuvwxyz", others: "0123456789-", most: 63}
	idGrammar   = plain{first: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", others: "._:-", most: 128}
	// A key provider's id may be a whole public key in hex.
	holdGrammar = plain{first: "abcdefghijklmnopqrstuvwxyz", others: "_", most: 63}

	revocationGrammar = regexp.MustCompile(`^(instance|revision|key_provider)-[a-zA-Z0-9][a-zA-Z0-9._:-]{0,299}$`)
	scopeGrammar      = regexp.MustCompile(`^([a-z][a-z0-9-]{0,62}|_all)$`)
	nonceGrammar      = regexp.MustCompile(`^[0-9a-f]{16,128}$`)
	sha256Grammar     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	numberGrammar     = regexp.MustCompile(`^[0-9]{12}$`)
	fmspcGrammar      = regexp.MustCompile(`^[0-9a-f]{12}$`)
)

// badMark starts the result of a key builder for a rejected segment. No stored key has it, and
// every Store method rejects it with the reason.
const badMark = "!"

func name(s string) string  { return segment(nameGrammar, s) }
func id(s string) string    { return segment(idGrammar, s) }
func nonce(s string) string { return segment(nonceGrammar, s) }

// grammar of a segment.
type grammar interface{ MatchString(s string) bool }

// plain is the grammar of 1 to most bytes; the bytes in others may not come first. Most keys use
// it, and each pass builds many keys: a regular expression takes ten times as long.
type plain struct {
	first, others string
	most          int
}

// MatchString reports whether s follows the grammar.
func (p plain) MatchString(s string) bool {
	if s == "" || len(s) > p.most || strings.IndexByte(p.first, s[0]) < 0 {
		return false
	}
	for i := 1; i < len(s); i++ {
		if strings.IndexByte(p.first, s[i]) < 0 && strings.IndexByte(p.others, s[i]) < 0 {
			return false
		}
	}
	return true
}

func segment(grammar grammar, s string) string {
	if grammar.MatchString(s) {
		return s
	}
	if len(s) > 80 {
		s = s[:80]
	}
	return badMark + strconv.Quote(s)
}

func key(segments ...string) string {
	for _, s := range segments {
		if strings.HasPrefix(s, badMark) {
			return s
		}
	}
	return strings.Join(segments, "/")
}

// CheckKey rejects keys that a builder rejected and keys that are not clean paths. The error is
// ErrBadKey and names the segment.
func CheckKey(key string) error {
	if bad, found := strings.CutPrefix(key, badMark); found {
		return fmt.Errorf("%w: %s is not a name (lower-case letters, digits and '-', starting with a letter) or id for a key segment",
			ErrBadKey, strings.TrimSuffix(bad, "/"))
	}
	if key == "" || strings.HasSuffix(key, "/") {
		return fmt.Errorf("%w: %q is a prefix, not a key", ErrBadKey, key)
	}
	return checkPath(key)
}

// CheckPrefix is CheckKey for the prefixes of List and Watch; "" means everything.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	if strings.HasPrefix(prefix, badMark) {
		return CheckKey(prefix)
	}
	return checkPath(prefix)
}

func checkPath(path string) error {
	if len(path) > maxKeyBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrBadKey, len(path), maxKeyBytes)
	}
	if strings.HasPrefix(path, "/") || strings.Contains(path, "//") {
		return fmt.Errorf("%w: %q has an empty segment", ErrBadKey, path)
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return fmt.Errorf("%w: %q has the segment %q", ErrBadKey, path, segment)
		}
	}
	for i := range len(path) {
		if c := path[i]; c <= ' ' || c >= 0x7f {
			return fmt.Errorf("%w: %q has the byte %#x", ErrBadKey, path, c)
		}
	}
	return nil
}

// LogsKey and RunKey are keys without a record. The right to write LogsKey permits a caller to read
// the logs of a group's instances, and the right to write RunKey to run the commands that the
// group's compose text declares for operators. The group of coordinators is "coordinator".
func LogsKey(group string) string { return ControlPrefix + "logs/" + group }

// RunKey is a key without a record; see LogsKey.
func RunKey(group string) string { return ControlPrefix + "run/" + group }
