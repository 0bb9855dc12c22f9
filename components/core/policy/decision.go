package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cadre.dev/core/hashchain"
)

// Decided is the kind of a decision about a Boot.
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
	// DecidedMet: a Boot was seen alive at the same time as the holder. The entry names both.
	DecidedMet Decided = "met"
	// DecidedMachine: the Slot's Instance showed another machine than before.
	DecidedMachine Decided = "machine"
	// DecidedReserve: the Slot is reserved for its holder, see Contest. DecidedRelease: an
	// operator ended that.
	DecidedReserve Decided = "reserve"
	DecidedRelease Decided = "release"
)

// turns reports whether it gives the Slot to a Boot, takes it away or keeps it
// for one.
func (d Decided) turns() bool {
	return d == DecidedAdmit || d == DecidedEvict || d == DecidedReserve || d == DecidedRelease
}

// Bounds of Decisions.
const (
	// MaxDecisions is how many admissions and evictions a Slot keeps, MaxRefused how
	// many refusals.
	MaxDecisions = 32
	MaxRefused   = 16
	// maxDecisionText bounds each text in its JSON form.
	maxDecisionText = 256
)

// DecisionEntry is one decision. Its digest covers every field, and the next
// entry carries that digest.
type DecisionEntry struct {
	// Number counts all decisions of the Slot from 1; the oldest entries are dropped. A repeated
	// decision takes the next number, unless it repeats the newest one.
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
	// Previous is the digest of the previous entry in its chain, 64 hex characters; the first entry
	// has the digest of the Slot's name.
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
	CheckMachine     CheckName = "machine"
	CheckLease       CheckName = "lease"
)

// checkOrder lists the questions with the codes that each may fail with. A code
// that is in no row is one of the cluster's own state and fails the last question.
var checkOrder = []checkRow{
	{CheckStatement, []Code{CodeStatementNoncanonical, CodeUnsupportedVersion, CodeStatementMismatch, CodeClusterMismatch, CodeSlotMismatch, CodeBadRequest, CodeRequestTooLarge, CodeIdentityForbidden}},
	{CheckNonce, []Code{CodeNonceInvalid, CodeNonceWrongContext}},
	{CheckChannel, []Code{CodeChannelBindingMismatch}},
	{CheckQuote, []Code{CodeQuoteInvalid, CodeQuoteMalformed, CodeQuoteRevoked, CodeReportDataMismatch, CodeTDDebug, CodeTDAttributesForbidden, CodeTEETypeForbidden, CodeEventLogInvalid, CodeEventLogAmbiguous, CodeGuestImageNewer, CodeQEIdentityInvalid}},
	{CheckTCB, []Code{CodeTCBOutOfDate, CodeTCBAdvisoryBlocked, CodeCollateralExpired, CodeCollateralUnavailable, CodeCollateralRollback}},
	{CheckInstance, []Code{CodeAppIDMismatch, CodeInstanceMismatch, CodeSlotUnknown, CodePeerRevoked}},
	{CheckKeyProvider, []Code{CodeKMSPolicyMismatch}},
	{CheckImage, []Code{CodeMeasurementMismatch, CodeOSImageForbidden}},
	{CheckRevision, []Code{CodeRevisionNotAllowed, CodeRevisionNotApproved, CodeRevisionBelowFloor}},
	{CheckCompose, []Code{CodeComposeForbidden, CodeImageNotPinned}},
	{CheckMachine, []Code{CodeMachineShared, CodeMachineNotListed, CodeMachineUnknown}},
	{CheckLease, nil},
}

// OfRevision reports that admission refused the Revision with the code: its image, its content, or the permission to run
// it. Other codes are about the machine, the request or the cluster.
func (c Code) OfRevision() bool {
	return slices.ContainsFunc(checkOrder, func(row checkRow) bool {
		about := row.name == CheckImage || row.name == CheckRevision || row.name == CheckCompose
		return about && slices.Contains(row.codes, c)
	})
}

// checkRow is one question of an admission with the codes that it may fail with.
type checkRow struct {
	name  CheckName
	codes []Code
}

// Checks lists all checks of an admission that ended with code, "" for a successful one. detail
// describes the failed check; details describe the passed checks, by name.
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
			out[i] = Check{Name: row.name, Outcome: CheckOK, Detail: truncateText(details[row.name])}
		case i == failed:
			out[i] = Check{Name: row.name, Outcome: CheckFailed, Code: code, Detail: truncateText(detail)}
		default:
			out[i] = Check{Name: row.name, Outcome: CheckNotReached}
		}
	}
	return out
}

// Decisions is the record at decisions/<slot>: the latest decisions about Boots that claim the Slot
// with genuine evidence. It has two hash chains, which reveal an edited entry and an entry removed
// from between others. The chains cannot reveal that the oldest entries were dropped, or that a
// lost record began new chains. A writer of the whole record can also make new chains; the
// coordinators' logs carry each digest and reveal that.
type Decisions struct {
	Slot string `json:"slot"`
	// Entries record each admission to the Slot and each loss of it, oldest first, at most
	// MaxDecisions. Earlier versions kept refusals among them.
	Entries []DecisionEntry `json:"entries"`
	// Head is the digest of the last one.
	Head string `json:"head"`
	// Refused are the decisions that left the Slot to its holder, oldest first, at most MaxRefused.
	// They have their own list: clones that ask under new keys would push the eviction of a Boot
	// out of a common list, and the evicted Boot could return.
	Refused     []DecisionEntry `json:"refused,omitempty"`
	RefusedHead string          `json:"refused_head,omitempty"`
	// Checks are the checks of the latest admission that was decided by evidence, of the Boot
	// ChecksBootID at ChecksAt.
	Checks       []Check   `json:"checks,omitempty"`
	ChecksBootID string    `json:"checks_boot_id,omitempty"`
	ChecksAt     time.Time `json:"checks_at,omitzero"`
}

// Append adds e, whose Number, Times and Previous are set here. The same decision
// about the same Boots as the last one of its chain only counts up: a Boot that asks
// again and again buries nothing. The receiver is not changed.
func (d Decisions) Append(slot string, e DecisionEntry) Decisions {
	out := d
	out.Slot = slot
	e.Message = truncateText(e.Message)
	newest := d.Last().Number
	if e.What.turns() {
		out.Entries, out.Head = link(d.Entries, e, start(slot), newest, MaxDecisions)
	} else {
		out.Refused, out.RefusedHead = link(d.Refused, e, startRefused(slot), newest, MaxRefused)
	}
	return out
}

// link adds e to a chain that begins with the digest first; newest is the last number
// given in the record.
func link(chain []DecisionEntry, e DecisionEntry, first string, newest uint64, limit int) (_ []DecisionEntry, head string) {
	e.Number, e.Times, e.Previous = newest+1, 1, first
	if n := len(chain); n > 0 {
		last := chain[n-1]
		e.Previous = last.Digest()
		if last.What == e.What && last.Code == e.Code && last.BootID == e.BootID && last.HolderBootID == e.HolderBootID && last.Generation == e.Generation {
			e.Times, e.Previous = last.Times+1, last.Previous
			if last.Number == newest {
				e.Number = newest
			}
			chain = chain[:n-1]
		}
	}
	out := append(slices.Clone(chain), e)
	if over := len(out) - limit; over > 0 {
		out = out[over:]
	}
	return out, e.Digest()
}

// Verify says where a chain is broken; nil: nowhere.
func (d Decisions) Verify() error {
	if err := d.verify(d.Entries, d.Head, start(d.Slot)); err != nil {
		return err
	}
	return d.verify(d.Refused, d.RefusedHead, startRefused(d.Slot))
}

func (d Decisions) verify(chain []DecisionEntry, head, first string) error {
	if len(chain) == 0 {
		if head != "" {
			return fmt.Errorf("%s: the entries of slot %s are gone", CodeAuditChainBroken, d.Slot)
		}
		return nil
	}
	for i, e := range chain {
		switch {
		case i == 0 && e.Number == 1 && e.Previous != first:
			return fmt.Errorf("%s: the first entry does not belong to slot %s", CodeAuditChainBroken, d.Slot)
		case i > 0 && (e.Number <= chain[i-1].Number || e.Previous != chain[i-1].Digest()):
			return fmt.Errorf("%s: entry %d does not follow entry %d as it was written", CodeAuditChainBroken, e.Number, chain[i-1].Number)
		}
	}
	if last := chain[len(chain)-1]; head != last.Digest() {
		return fmt.Errorf("%s: the last entry %d is not what was written", CodeAuditChainBroken, last.Number)
	}
	return nil
}

// All are the entries of both chains in the order in which they were decided.
func (d Decisions) All() []DecisionEntry {
	all := slices.Concat(d.Entries, d.Refused)
	slices.SortFunc(all, func(a, b DecisionEntry) int { return cmp.Compare(a.Number, b.Number) })
	return all
}

// Last is the newest entry; its zero value when there is none.
func (d Decisions) Last() (last DecisionEntry) {
	for _, chain := range [][]DecisionEntry{d.Entries, d.Refused} {
		if n := len(chain); n > 0 && chain[n-1].Number > last.Number {
			last = chain[n-1]
		}
	}
	return last
}

// Had reports whether the Boot was ever given the Slot, as far as is remembered: the
// last MaxDecisions turns.
func (d Decisions) Had(bootID string) bool {
	return slices.ContainsFunc(d.Entries, func(e DecisionEntry) bool {
		return (e.What == DecidedAdmit || e.What == DecidedEvict) && e.BootID == bootID
	})
}

// Holder returns the Boot that received the Slot last and has not lost it since, according to the
// kept entries; "" when there is none.
func (d Decisions) Holder() string {
	for _, e := range slices.Backward(d.Entries) {
		switch e.What { //nolint:exhaustive // the others leave the Slot to its holder
		case DecidedAdmit:
			return e.BootID
		case DecidedEvict:
			return ""
		}
	}
	return ""
}

// Evicted is the last decision that took the Slot away from the Boot.
func (d Decisions) Evicted(bootID string) (DecisionEntry, bool) {
	for _, e := range slices.Backward(d.Entries) {
		if e.What == DecidedEvict && e.BootID == bootID {
			return e, true
		}
	}
	return DecisionEntry{}, false
}

// Digest is the SHA-256 of the entry's JSON, 64 hex characters.
func (e DecisionEntry) Digest() string {
	e.At = e.At.UTC()
	return hashchain.Digest("cadre/decision/v1\x00", e)
}

func start(slot string) string { return hashchain.Start("cadre/decisions/v1\x00", slot) }

// startRefused differs, so that entries cannot change sides.
func startRefused(slot string) string { return hashchain.Start("cadre/decisions/v1/refused\x00", slot) }

// truncateText bounds a text: a record that grew too large would block every admission.
func truncateText(text string) string { return hashchain.Truncate(text, maxDecisionText) }
