package collateral

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"cadre.dev/core/strictjson"
)

// componentCount is how many components a TCB has, SGX and TDX each. A list of another length is
// rejected: a comparison of a shorter list would ignore the rest.
const componentCount = 16

// tcbInfo is version 3 of Intel's TCB info for TDX. Names that Intel may add are
// ignored: its meaning is fixed by id and version.
type tcbInfo struct {
	ID               string           `json:"id"`
	Version          int              `json:"version"`
	IssueDate        time.Time        `json:"issueDate"`
	NextUpdate       time.Time        `json:"nextUpdate"`
	FMSPC            string           `json:"fmspc"`
	PCEID            string           `json:"pceId"`
	TCBType          *int             `json:"tcbType"`
	EvaluationNumber uint32           `json:"tcbEvaluationDataNumber"`
	Module           tdxModule        `json:"tdxModule"`
	Modules          []moduleIdentity `json:"tdxModuleIdentities"`
	Levels           []tcbLevel       `json:"tcbLevels"`
}

type tdxModule struct {
	MRSigner       hexBytes `json:"mrsigner"`
	Attributes     hexBytes `json:"attributes"`
	AttributesMask hexBytes `json:"attributesMask"`
}

type moduleIdentity struct {
	ID             string     `json:"id"`
	MRSigner       hexBytes   `json:"mrsigner"`
	Attributes     hexBytes   `json:"attributes"`
	AttributesMask hexBytes   `json:"attributesMask"`
	Levels         []isvLevel `json:"tcbLevels"`
}

type tcbLevel struct {
	TCB struct {
		SGX    []component `json:"sgxtcbcomponents"`
		PCESVN uint16      `json:"pcesvn"`
		TDX    []component `json:"tdxtcbcomponents"`
	} `json:"tcb"`
	Date       time.Time `json:"tcbDate"`
	Status     Status    `json:"tcbStatus"`
	Advisories []string  `json:"advisoryIDs"`
}

type component struct {
	SVN uint8 `json:"svn"`
}

type isvLevel struct {
	TCB struct {
		ISVSVN uint16 `json:"isvsvn"`
	} `json:"tcb"`
	Date       time.Time `json:"tcbDate"`
	Status     Status    `json:"tcbStatus"`
	Advisories []string  `json:"advisoryIDs"`
}

// qeIdentity is version 2 of the identity of Intel's quoting enclave for TDX.
type qeIdentity struct {
	ID               string     `json:"id"`
	Version          int        `json:"version"`
	IssueDate        time.Time  `json:"issueDate"`
	NextUpdate       time.Time  `json:"nextUpdate"`
	EvaluationNumber uint32     `json:"tcbEvaluationDataNumber"`
	MiscSelect       hexBytes   `json:"miscselect"`
	MiscSelectMask   hexBytes   `json:"miscselectMask"`
	Attributes       hexBytes   `json:"attributes"`
	AttributesMask   hexBytes   `json:"attributesMask"`
	MRSigner         hexBytes   `json:"mrsigner"`
	ISVProdID        uint16     `json:"isvprodid"`
	Levels           []isvLevel `json:"tcbLevels"`
}

// hexBytes are hex digits of either case in JSON.
type hexBytes []byte

// UnmarshalJSON implements json.Unmarshaler.
func (h *hexBytes) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		return err
	}
	*h = b
	return nil
}

// signed opens {"<name>":{...},"signature":"<hex r‖s>"} and returns the unchanged bytes of the
// inner object, and the signature.
func signed(text, name string) (inner, signature []byte, err error) {
	var outer map[string]json.RawMessage
	if err := strictjson.Unmarshal([]byte(text), &outer); err != nil {
		return nil, nil, err
	}
	inner, ok := outer[name]
	if !ok || len(outer) != 2 {
		return nil, nil, fmt.Errorf("want exactly %q and \"signature\"", name)
	}
	var sig hexBytes
	if err := json.Unmarshal(outer["signature"], &sig); err != nil {
		return nil, nil, fmt.Errorf("signature: %w", err)
	}
	if len(sig) != 64 {
		return nil, nil, fmt.Errorf("signature has %d bytes, not 64", len(sig))
	}
	return inner, sig, nil
}

// readTCBInfo decodes the inner object and checks its form.
func readTCBInfo(inner []byte) (tcbInfo, error) {
	var t tcbInfo
	if err := strictjson.UnmarshalOpen(inner, &t); err != nil {
		return t, err
	}
	t.FMSPC, t.PCEID = strings.ToLower(t.FMSPC), strings.ToLower(t.PCEID)
	switch {
	case t.ID != "TDX" || t.Version != 3:
		return t, fmt.Errorf("id %q version %d, want TDX version 3", t.ID, t.Version)
	case !isHex(t.FMSPC, 12) || !isHex(t.PCEID, 4):
		return t, fmt.Errorf("fmspc %q or pceId %q is not 6 and 2 bytes of hex", t.FMSPC, t.PCEID)
	case t.TCBType == nil:
		return t, fmt.Errorf("no tcbType")
	case *t.TCBType != 0:
		return t, fmt.Errorf("tcbType %d, only 0 is known", *t.TCBType)
	case !t.NextUpdate.After(t.IssueDate) || t.IssueDate.IsZero():
		return t, fmt.Errorf("nextUpdate is not after issueDate")
	case t.EvaluationNumber == 0:
		return t, fmt.Errorf("no tcbEvaluationDataNumber")
	case len(t.Module.MRSigner) != 48 || len(t.Module.Attributes) != 8 || len(t.Module.AttributesMask) != 8:
		return t, fmt.Errorf("tdxModule: mrsigner, attributes and mask must have 48, 8 and 8 bytes")
	case len(t.Levels) == 0:
		return t, fmt.Errorf("no tcbLevels")
	}
	for i, l := range t.Levels {
		if len(l.TCB.SGX) != componentCount || len(l.TCB.TDX) != componentCount {
			return t, fmt.Errorf("tcbLevels[%d] has %d SGX and %d TDX components, want %d each", i, len(l.TCB.SGX), len(l.TCB.TDX), componentCount)
		}
		if !l.Status.known() {
			return t, fmt.Errorf("tcbLevels[%d]: unknown tcbStatus %q", i, l.Status)
		}
	}
	for i := range t.Levels {
		for j := i + 1; j < len(t.Levels); j++ {
			if t.Levels[j].covers(t.Levels[i]) {
				return t, fmt.Errorf("tcbLevels[%d] stands before tcbLevels[%d], which asks for no less: they are not sorted", i, j)
			}
		}
	}
	seen := map[string]bool{}
	for _, m := range t.Modules {
		if seen[strings.ToUpper(m.ID)] {
			return t, fmt.Errorf("tdxModuleIdentities names %s twice", m.ID)
		}
		seen[strings.ToUpper(m.ID)] = true
		if len(m.MRSigner) != 48 || len(m.Attributes) != 8 || len(m.AttributesMask) != 8 {
			return t, fmt.Errorf("tdxModuleIdentities %s: mrsigner, attributes and mask must have 48, 8 and 8 bytes", m.ID)
		}
		if err := checkISVLevels(m.Levels); err != nil {
			return t, fmt.Errorf("tdxModuleIdentities %s: %w", m.ID, err)
		}
		for i, l := range m.Levels {
			if l.Status != UpToDate && l.Status != OutOfDate && l.Status != Revoked {
				return t, fmt.Errorf("tdxModuleIdentities %s: tcbLevels[%d]: tcbStatus %q is none of a module", m.ID, i, l.Status)
			}
		}
	}
	return t, nil
}

// readQEIdentity decodes the inner object and checks its form.
func readQEIdentity(inner []byte) (qeIdentity, error) {
	var q qeIdentity
	if err := strictjson.UnmarshalOpen(inner, &q); err != nil {
		return q, err
	}
	switch {
	case q.ID != "TD_QE" || q.Version != 2:
		return q, fmt.Errorf("id %q version %d, want TD_QE version 2", q.ID, q.Version)
	case !q.NextUpdate.After(q.IssueDate) || q.IssueDate.IsZero():
		return q, fmt.Errorf("nextUpdate is not after issueDate")
	case q.EvaluationNumber == 0:
		return q, fmt.Errorf("no tcbEvaluationDataNumber")
	case len(q.MiscSelect) != 4 || len(q.MiscSelectMask) != 4 || len(q.Attributes) != 16 || len(q.AttributesMask) != 16 || len(q.MRSigner) != 32:
		return q, fmt.Errorf("miscselect, attributes, their masks and mrsigner must have 4, 16 and 32 bytes")
	}
	return q, checkISVLevels(q.Levels)
}

func checkISVLevels(levels []isvLevel) error {
	if len(levels) == 0 {
		return fmt.Errorf("no tcbLevels")
	}
	for i, l := range levels {
		if !l.Status.known() {
			return fmt.Errorf("tcbLevels[%d]: unknown tcbStatus %q", i, l.Status)
		}
		if i > 0 && l.TCB.ISVSVN >= levels[i-1].TCB.ISVSVN {
			return fmt.Errorf("tcbLevels[%d] has isvsvn %d after %d: they are not sorted", i, l.TCB.ISVSVN, levels[i-1].TCB.ISVSVN)
		}
	}
	return nil
}

// covers reports that l includes all requirements of other: a machine that reaches l reaches other
// as well. If other came first, l would never be found.
func (l tcbLevel) covers(other tcbLevel) bool {
	if l.TCB.PCESVN < other.TCB.PCESVN {
		return false
	}
	for i := range componentCount {
		if l.TCB.SGX[i].SVN < other.TCB.SGX[i].SVN || l.TCB.TDX[i].SVN < other.TCB.TDX[i].SVN {
			return false
		}
	}
	return true
}

// isHex reports exactly n lower-case hex digits.
func isHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
