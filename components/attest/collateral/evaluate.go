package collateral

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/attest/internal/refusal"
	"cadre.dev/core/policy"
)

// Machine is a genuine quote's description of the machine beneath it.
type Machine struct {
	// FMSPC and PCEID of the PCK certificate, lower-case hex.
	FMSPC, PCEID string
	// SGX are the 16 components of the certificate's TCB, PCESVN the last one.
	SGX    [16]uint8
	PCESVN uint16
	// TDX is TEE_TCB_SVN of the quote: module svn, module version, then the rest.
	TDX [16]uint8
	// ModuleSigner and ModuleAttributes are MRSIGNERSEAM and SEAMATTRIBUTES.
	ModuleSigner     [48]byte
	ModuleAttributes [8]byte
	QE               Enclave
}

// Enclave is the quoting enclave's report.
type Enclave struct {
	MiscSelect uint32
	Attributes [16]byte
	MRSigner   [32]byte
	ProdID     uint16
	SVN        uint16
}

// Evaluate applies s to m. It returns the worst status of the platform, the TDX module and the
// quoting enclave, and the advisories of all three. It is pure. Collateral of another family is
// COLLATERAL_UNAVAILABLE; an enclave that is not the named one QE_IDENTITY_INVALID; a machine below
// every level TCB_OUT_OF_DATE. A status that is not UpToDate is no error: policy judges it.
func (s *Set) Evaluate(m Machine) (policy.TCB, error) {
	if m.FMSPC != s.tcb.FMSPC || m.PCEID != s.tcb.PCEID {
		return policy.TCB{}, unusable("the TCB info is of FMSPC %s, PCE %s; the machine is %s, %s", s.tcb.FMSPC, s.tcb.PCEID, m.FMSPC, m.PCEID)
	}
	platform, err := s.platformLevel(m)
	if err != nil {
		return policy.TCB{}, err
	}
	module, err := s.moduleLevel(m)
	if err != nil {
		return policy.TCB{}, err
	}
	qe, err := s.enclaveLevel(m.QE)
	if err != nil {
		return policy.TCB{}, err
	}
	advisories := slices.Concat(platform.advisories, module.advisories, qe.advisories)
	slices.Sort(advisories)
	return policy.TCB{
		Status: string(worst(platform.status, module.status, qe.status)), Advisories: slices.Compact(advisories), FMSPC: s.tcb.FMSPC,
		EvaluationNumber: min(s.tcb.EvaluationNumber, s.qe.EvaluationNumber), ValidUntil: s.ValidUntil(),
		ReplacedAt: replacedAt(platform, module, qe),
	}, nil
}

// matched is the level that one part of a machine reaches.
type matched struct {
	status     Status
	advisories []string
	// replaced is the date of the next newer level; zero: the document names none.
	replaced time.Time
}

// replacedAt is the earliest date on which one of the parts was replaced. It is zero
// unless each part is UpToDate or OutOfDate with a date: a grace for old levels must not
// hide that a part also lacks hardening or configuration.
func replacedAt(parts ...matched) (first time.Time) {
	for _, p := range parts {
		switch {
		case p.status == UpToDate:
		case p.status != OutOfDate || p.replaced.IsZero():
			return time.Time{}
		case first.IsZero() || p.replaced.Before(first):
			first = p.replaced
		}
	}
	return first
}

// replacement is the earliest of the dates after own; zero if there is none, or if own is no date.
func replacement(own time.Time, dates []time.Time) (next time.Time) {
	for _, d := range dates {
		if !own.IsZero() && d.After(own) && (next.IsZero() || d.Before(next)) {
			next = d
		}
	}
	return next
}

// platformLevel is the first level that m reaches in every component.
func (s *Set) platformLevel(m Machine) (matched, error) {
	// From version 1 on the first two TDX components are the module's, which has
	// levels of its own.
	from := 0
	if m.TDX[1] > 0 {
		from = 2
	}
	for _, l := range s.tcb.Levels {
		if m.PCESVN >= l.TCB.PCESVN && reaches(m.SGX[:], l.TCB.SGX) && reaches(m.TDX[from:], l.TCB.TDX[from:]) {
			dates := make([]time.Time, len(s.tcb.Levels))
			for i, other := range s.tcb.Levels {
				dates[i] = other.Date
			}
			return matched{l.Status, l.Advisories, replacement(l.Date, dates)}, nil
		}
	}
	return matched{}, refusal.New(policy.CodeTCBOutOfDate, "the platform is below every TCB level of FMSPC %s", m.FMSPC)
}

func reaches(have []uint8, want []component) bool {
	if len(have) != len(want) {
		return false
	}
	for i := range have {
		if have[i] < want[i].SVN {
			return false
		}
	}
	return true
}

// moduleLevel identifies the TDX module. Modules of version 0 have no levels of
// their own: the platform's cover them.
func (s *Set) moduleLevel(m Machine) (matched, error) {
	version := m.TDX[1]
	if version == 0 {
		return matched{status: UpToDate}, sameModule(m, s.tcb.Module.MRSigner, s.tcb.Module.Attributes, s.tcb.Module.AttributesMask)
	}
	id := fmt.Sprintf("TDX_%02X", version)
	for _, module := range s.tcb.Modules {
		if !strings.EqualFold(module.ID, id) {
			continue
		}
		if err := sameModule(m, module.MRSigner, module.Attributes, module.AttributesMask); err != nil {
			return matched{}, err
		}
		if l, ok := firstLevel(module.Levels, uint16(m.TDX[0])); ok {
			return l, nil
		}
		return matched{}, refusal.New(policy.CodeTCBOutOfDate, "TDX module %s with svn %d is below every level", id, m.TDX[0])
	}
	return matched{}, refusal.New(policy.CodeTCBOutOfDate, "the collateral does not know TDX module %s", id)
}

func sameModule(m Machine, signer, attributes, mask []byte) error {
	if !bytes.Equal(m.ModuleSigner[:], signer) || !equalUnder(mask, m.ModuleAttributes[:], attributes) {
		return refusal.New(policy.CodeTDAttributesForbidden, "the TDX module's signer or attributes are not those of the collateral")
	}
	return nil
}

// enclaveLevel checks that e is the quoting enclave that Intel names, by masks.
func (s *Set) enclaveLevel(e Enclave) (matched, error) {
	var misc [4]byte
	binary.LittleEndian.PutUint32(misc[:], e.MiscSelect)
	switch {
	case !bytes.Equal(e.MRSigner[:], s.qe.MRSigner):
		return matched{}, refusal.New(policy.CodeQEIdentityInvalid, "QE signer %x is not that of the collateral", e.MRSigner)
	case e.ProdID != s.qe.ISVProdID:
		return matched{}, refusal.New(policy.CodeQEIdentityInvalid, "QE product id %d, the collateral names %d", e.ProdID, s.qe.ISVProdID)
	case !equalUnder(s.qe.AttributesMask, e.Attributes[:], s.qe.Attributes):
		return matched{}, refusal.New(policy.CodeQEIdentityInvalid, "QE attributes %x are not those of the collateral", e.Attributes)
	case !equalUnder(s.qe.MiscSelectMask, misc[:], s.qe.MiscSelect):
		return matched{}, refusal.New(policy.CodeQEIdentityInvalid, "QE MISCSELECT %x is not that of the collateral", misc)
	}
	if l, ok := firstLevel(s.qe.Levels, e.SVN); ok {
		return l, nil
	}
	return matched{}, refusal.New(policy.CodeQEIdentityInvalid, "QE svn %d is below every level", e.SVN)
}

func firstLevel(levels []isvLevel, svn uint16) (matched, bool) {
	dates := make([]time.Time, len(levels))
	for i, l := range levels {
		dates[i] = l.Date
	}
	for _, l := range levels {
		if svn >= l.TCB.ISVSVN {
			return matched{l.Status, l.Advisories, replacement(l.Date, dates)}, true
		}
	}
	return matched{}, false
}

// equalUnder compares got with want in the bits of mask; all have one length.
func equalUnder(mask, got, want []byte) bool {
	if len(mask) != len(got) || len(mask) != len(want) {
		return false
	}
	for i := range mask {
		if got[i]&mask[i] != want[i] {
			return false
		}
	}
	return true
}
