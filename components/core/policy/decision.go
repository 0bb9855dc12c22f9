package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Decided is what was decided about a Boot.
type Decided string

const (
	// DecidedAdmit: the Boot took the Slot, or was admitted again for fresh evidence.
	DecidedAdmit Decided = "admit"
	// DecidedRefuse: genuine evidence, but the Slot may not be this Boot now.
	DecidedRefuse Decided = "refuse"
	// DecidedConflict: another Boot holds the Slot's lease; both are named.
	DecidedConflict Decided = "conflict"
	// DecidedRenewRefused: the holder asked for fresh credentials and did not get them.
	DecidedRenewRefused Decided = "renew-refused"
	// DecidedEvict: the holder lost the Slot by decision of the cluster.
	DecidedEvict Decided = "evict"
)

// Bounds of Decisions.
const (
	// MaxDecisions is how many entries a Slot keeps.
	MaxDecisions    = 32
	maxDecisionText = 256
)

// DecisionEntry is one decision. Its digest covers every field, and the next
// entry carries that digest.
type DecisionEntry struct {
	// Number counts all decisions of the Slot from 1; the oldest are dropped.
	Number uint64    `json:"number"`
	At     time.Time `json:"at"`
	What   Decided   `json:"what"`
	// BootID and InstanceID are of the Boot that it is about.
	BootID     string `json:"boot_id"`
	InstanceID string `json:"instance_id,omitempty"`
	// HolderBootID is of the Boot that holds the Slot; set for a conflict.
	HolderBootID     string `json:"holder_boot_id,omitempty"`
	HolderInstanceID string `json:"holder_instance_id,omitempty"`
	// Code and Message say why; empty for an admission.
	Code    Code   `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// Revision as attested; empty when none was recognised.
	Revision string `json:"revision,omitempty"`
	// PolicyEpoch of the policy that was in force.
	PolicyEpoch uint64 `json:"policy_epoch,omitempty"`
	// Generation of the Admission that it made or ended.
	Generation uint64 `json:"generation,omitempty"`
	// By is the coordinator that decided.
	By string `json:"by"`
	// Times is how often the same was decided in a row; At is of the last time.
	Times uint64 `json:"times,omitempty"`
	// Previous is the digest of the entry before, 64 hex characters; for the first
	// one that of the Slot's name.
	Previous string `json:"previous"`
}

// Check is one question of an admission and its answer.
type Check struct {
	Name    CheckName `json:"name"`
	Outcome Outcome   `json:"outcome"`
	// Code names the failure; Detail is for people.
	Code   Code   `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Outcome of a Check.
type Outcome string

const (
	// CheckOK: asked, and as it must be.
	CheckOK Outcome = "ok"
	// CheckFailed: asked, and not as it must be.
	CheckFailed Outcome = "failed"
	// CheckNotReached: an earlier one failed.
	CheckNotReached Outcome = "not-reached"
)

// CheckName names a question.
type CheckName string

// The questions of an admission, in the order in which they are asked.
const (
	CheckStatement   CheckName = "statement"
	CheckNonce       CheckName = "nonce"
	CheckChannel     CheckName = "channel"
	CheckQuote       CheckName = "quote"
	CheckTCB         CheckName = "tcb"
	CheckInstance    CheckName = "instance"
	CheckKeyProvider CheckName = "key-provider"
	CheckImage       CheckName = "os-image"
	CheckRevision    CheckName = "revision"
	CheckCompose     CheckName = "compose"
	CheckLease       CheckName = "lease"
)

// checkOrder lists the questions with the codes that each may fail with. A code
// that is in no row is one of the cluster's own state and fails the last question.
var checkOrder = []struct {
	name  CheckName
	codes []Code
}{
	{CheckStatement, []Code{CodeStatementNoncanonical, CodeUnsupportedVersion, CodeStatementMismatch, CodeClusterMismatch, CodeSlotMismatch, CodeBadRequest, CodeRequestTooLarge, CodeIdentityForbidden}},
	{CheckNonce, []Code{CodeNonceInvalid, CodeNonceWrongContext}},
	{CheckChannel, []Code{CodeChannelBindingMismatch}},
	{CheckQuote, []Code{CodeQuoteInvalid, CodeQuoteMalformed, CodeQuoteRevoked, CodeReportDataMismatch, CodeTDDebug, CodeTDAttributesForbidden, CodeTEETypeForbidden, CodeEventLogInvalid, CodeEventLogAmbiguous, CodeQEIdentityInvalid}},
	{CheckTCB, []Code{CodeTCBOutOfDate, CodeTCBAdvisoryBlocked, CodeCollateralExpired, CodeCollateralUnavailable, CodeCollateralRollback}},
	{CheckInstance, []Code{CodeAppIDMismatch, CodeInstanceMismatch, CodeSlotUnknown, CodePeerRevoked}},
	{CheckKeyProvider, []Code{CodeKMSPolicyMismatch}},
	{CheckImage, []Code{CodeMeasurementMismatch, CodeOSImageForbidden}},
	{CheckRevision, []Code{CodeRevisionNotAllowed, CodeRevisionNotApproved, CodeRevisionBelowFloor}},
	{CheckCompose, []Code{CodeComposeForbidden, CodeImageNotPinned}},
	{CheckLease, nil},
}

// Checks is the list of all questions for an admission that ended with code, ""
// for one that succeeded. detail says more about the failed one; details, by
// name, about those that were answered well.
func Checks(code Code, detail string, details map[CheckName]string) []Check {
	failed := len(checkOrder)
	if code != "" {
		failed = len(checkOrder) - 1
	}
	for i, row := range checkOrder {
		for _, c := range row.codes {
			if code != "" && c == code {
				failed = i
			}
		}
	}
	out := make([]Check, len(checkOrder))
	for i, row := range checkOrder {
		switch {
		case i < failed:
			out[i] = Check{Name: row.name, Outcome: CheckOK, Detail: clip(details[row.name])}
		case i == failed:
			out[i] = Check{Name: row.name, Outcome: CheckFailed, Code: code, Detail: clip(detail)}
		default:
			out[i] = Check{Name: row.name, Outcome: CheckNotReached}
		}
	}
	return out
}

// Decisions is the record at decisions/<slot>: what was decided last about Boots
// that claim the Slot with genuine evidence. It is a hash chain: an entry that was
// edited, or removed from between others, shows. The oldest ones are dropped, and a
// record that is gone begins a new chain: neither shows here. Who can write the whole
// record can also make a new chain; the coordinators' logs carry each digest, so that
// theirs shows it.
type Decisions struct {
	Slot string `json:"slot"`
	// Entries, oldest first, at most MaxDecisions.
	Entries []DecisionEntry `json:"entries"`
	// Head is the digest of the last entry.
	Head string `json:"head"`
	// Checks are those of the latest admission that was decided by evidence, of
	// the Boot ChecksBootID at ChecksAt.
	Checks       []Check   `json:"checks,omitempty"`
	ChecksBootID string    `json:"checks_boot_id,omitempty"`
	ChecksAt     time.Time `json:"checks_at,omitzero"`
}

// Append adds e, whose Number, Times and Previous are set here. The same decision
// about the same Boots as the last one only counts up: a Boot that asks again and
// again buries nothing. The receiver is not changed.
func (d Decisions) Append(slot string, e DecisionEntry) Decisions {
	out := d
	out.Slot = slot
	out.Entries = append([]DecisionEntry(nil), d.Entries...)
	e.Message = clip(e.Message)
	e.Number, e.Times, e.Previous = 1, 1, start(slot)
	if n := len(out.Entries); n > 0 {
		last := out.Entries[n-1]
		if last.What == e.What && last.Code == e.Code && last.BootID == e.BootID && last.HolderBootID == e.HolderBootID && last.Generation == e.Generation {
			e.Number, e.Times, e.Previous = last.Number, last.Times+1, last.Previous
			out.Entries = out.Entries[:n-1]
		} else {
			e.Number, e.Previous = last.Number+1, last.Digest()
		}
	}
	out.Entries = append(out.Entries, e)
	if over := len(out.Entries) - MaxDecisions; over > 0 {
		out.Entries = out.Entries[over:]
	}
	out.Head = e.Digest()
	return out
}

// Verify says where the chain is broken; nil: nowhere.
func (d Decisions) Verify() error {
	if len(d.Entries) == 0 {
		if d.Head != "" {
			return fmt.Errorf("%s: the entries of slot %s are gone", CodeAuditChainBroken, d.Slot)
		}
		return nil
	}
	for i, e := range d.Entries {
		switch {
		case i == 0 && e.Number == 1 && e.Previous != start(d.Slot):
			return fmt.Errorf("%s: the first entry does not belong to slot %s", CodeAuditChainBroken, d.Slot)
		case i > 0 && (e.Number != d.Entries[i-1].Number+1 || e.Previous != d.Entries[i-1].Digest()):
			return fmt.Errorf("%s: entry %d does not follow entry %d as it was written", CodeAuditChainBroken, e.Number, d.Entries[i-1].Number)
		}
	}
	if d.Head != d.Last().Digest() {
		return fmt.Errorf("%s: the last entry %d is not what was written", CodeAuditChainBroken, d.Last().Number)
	}
	return nil
}

// Last is the newest entry; its zero value when there is none.
func (d Decisions) Last() DecisionEntry {
	if len(d.Entries) == 0 {
		return DecisionEntry{}
	}
	return d.Entries[len(d.Entries)-1]
}

// Digest is the SHA-256 of the entry's JSON, 64 hex characters.
func (e DecisionEntry) Digest() string {
	e.At = e.At.UTC()
	text, err := json.Marshal(e)
	if err != nil {
		return "" // no such value: every field can be encoded
	}
	sum := sha256.Sum256(append([]byte("cadre/decision/v1\x00"), text...))
	return hex.EncodeToString(sum[:])
}

func start(slot string) string {
	sum := sha256.Sum256([]byte("cadre/decisions/v1\x00" + slot))
	return hex.EncodeToString(sum[:])
}

func clip(text string) string {
	if len(text) <= maxDecisionText {
		return text
	}
	return strings.ToValidUTF8(text[:maxDecisionText], "") + "..."
}
