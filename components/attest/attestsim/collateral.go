package attestsim

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"time"

	"cadre.dev/attest/collateral"
)

// Posture is the simulated manufacturer's rating of its machines. Its zero value rates them as up
// to date.
type Posture struct {
	// Platform, Module and QE are the statuses of the levels that the machines
	// reach; "" is UpToDate.
	Platform string `json:"platform,omitempty"`
	Module   string `json:"module,omitempty"`
	QE       string `json:"qe,omitempty"`
	// Replaced is the date of a newer level that only an UpdatedHost reaches, so that all other
	// hosts are OutOfDate unless Platform overrides it; zero: there is none.
	Replaced time.Time `json:"replaced,omitzero"`
	// Early is the rating in the early set; nil: the same as in the standard set.
	Early *Posture `json:"early,omitempty"`
	// Advisories are the advisories of the platform's level.
	Advisories []string `json:"advisories,omitempty"`
	// Evaluation is the tcbEvaluationDataNumber; 0 is 17.
	Evaluation uint32 `json:"evaluation,omitempty"`
	// Age is how long ago everything was issued; negative: in the future. Life is
	// how long it is valid from then; 0 is 30 days.
	Age  time.Duration `json:"-"`
	Life time.Duration `json:"-"`
	// RevokedHosts are machines by name. RevokedCA revokes the intermediate, and RevokedSigner the
	// signer of TCB info and QE identity.
	RevokedHosts  []string `json:"revoked_hosts,omitempty"`
	RevokedCA     bool     `json:"revoked_ca,omitempty"`
	RevokedSigner bool     `json:"revoked_signer,omitempty"`
	// Down: the service answers nothing but 503.
	Down bool `json:"down,omitempty"`
	// Edit may change TCB info and QE identity before they are signed.
	Edit func(tcbInfo, qeIdentity map[string]any) `json:"-"`
}

const defaultEvaluation = 17

// FMSPC is the family of all machines of a Cloud.
func FMSPC() string { return hex.EncodeToString(fmspc) }

// Collateral makes the collateral of p at now, signed under the Cloud's root.
func (c *Cloud) Collateral(now time.Time, p Posture) (collateral.Bundle, error) {
	b, err := c.collateralAt(now, p)
	if err != nil {
		return b, fmt.Errorf("make simulated collateral: %w", err)
	}
	return b, nil
}

func (c *Cloud) collateralAt(now time.Time, p Posture) (collateral.Bundle, error) {
	b := collateral.Bundle{Version: 1}
	signerKey, signer, signerPEM, err := c.issued("Intel SGX TCB Signing", "tcb-signing", false)
	if err != nil {
		return b, err
	}
	caKey, ca, caPEM, err := c.platformCA()
	if err != nil {
		return b, err
	}
	// Whole hours, so that the same bytes come out for a while.
	from := now.Add(-p.Age).UTC().Truncate(time.Hour)
	life := p.Life
	if life == 0 {
		life = 30 * 24 * time.Hour
	}
	tcb, qe := p.documents(from, from.Add(life))
	if p.Edit != nil {
		p.Edit(tcb, qe)
	}
	if b.TCBInfo, err = signedDocument("tcbInfo", tcb, signerKey); err != nil {
		return b, err
	}
	if b.QEIdentity, err = signedDocument("enclaveIdentity", qe, signerKey); err != nil {
		return b, err
	}
	b.TCBInfoChain, b.PCKCRLChain = string(signerPEM)+string(c.rootPEM), string(caPEM)+string(c.rootPEM)
	b.QEIdentityChain = b.TCBInfoChain

	var hosts, issued []*big.Int
	for _, name := range p.RevokedHosts {
		h, err := c.hostNamed(name)
		if err != nil {
			return b, err
		}
		hosts = append(hosts, h.leaf.SerialNumber)
	}
	if p.RevokedCA {
		issued = append(issued, ca.SerialNumber)
	}
	if p.RevokedSigner {
		issued = append(issued, signer.SerialNumber)
	}
	if b.PCKCRL, err = crl(ca, caKey, from, life, hosts); err != nil {
		return b, err
	}
	b.RootCRL, err = crl(c.root, c.rootKey, from, life, issued)
	return b, err
}

// documents are TCB info and QE identity before they are signed.
func (p Posture) documents(from, until time.Time) (tcb, qe map[string]any) {
	evaluation := p.Evaluation
	if evaluation == 0 {
		evaluation = defaultEvaluation
	}
	status := func(s string) string {
		if s == "" {
			return string(collateral.UpToDate)
		}
		return s
	}
	components := func(svn []byte) []any {
		out := make([]any, 16)
		for i := range out {
			out[i] = map[string]any{"svn": svn[i]}
		}
		return out
	}
	level := func(sgx, tdx []byte, pce int, status string, advisories []string) map[string]any {
		l := map[string]any{
			"tcb":     map[string]any{"sgxtcbcomponents": components(sgx), "pcesvn": pce, "tdxtcbcomponents": components(tdx)},
			"tcbDate": "2025-01-01T00:00:00Z", "tcbStatus": status,
		}
		if len(advisories) > 0 {
			l["advisoryIDs"] = advisories
		}
		return l
	}
	isv := func(svn int, status string) map[string]any {
		return map[string]any{"tcb": map[string]any{"isvsvn": svn}, "tcbDate": "2025-01-01T00:00:00Z", "tcbStatus": status}
	}
	zero48, zero8, mask8 := hex.EncodeToString(make([]byte, 48)), "0000000000000000", "FFFFFFFFFFFFFFFF"
	dates := func(doc map[string]any) map[string]any {
		doc["issueDate"], doc["nextUpdate"] = from.Format(time.RFC3339), until.Format(time.RFC3339)
		doc["tcbEvaluationDataNumber"] = evaluation
		return doc
	}
	tcb = dates(map[string]any{
		"id": "TDX", "version": 3, "fmspc": FMSPC(), "pceId": "0000", "tcbType": 0,
		"tdxModule": map[string]any{"mrsigner": zero48, "attributes": zero8, "attributesMask": mask8},
		"tdxModuleIdentities": []any{map[string]any{
			"id": "TDX_01", "mrsigner": zero48, "attributes": zero8, "attributesMask": mask8,
			"tcbLevels": []any{isv(int(teeTCBSVN[0]), status(p.Module)), isv(1, string(collateral.OutOfDate))},
		}},
		"tcbLevels": []any{
			level(cpuSVN, teeTCBSVN[:], pceSVN, status(p.Platform), p.Advisories),
			level(make([]byte, 16), make([]byte, 16), 1, string(collateral.OutOfDate), []string{"SIM-SA-00001"}),
		},
	})
	if !p.Replaced.IsZero() {
		own := level(cpuSVN, teeTCBSVN[:], pceSVN, string(collateral.OutOfDate), p.Advisories)
		if p.Platform != "" {
			own["tcbStatus"] = p.Platform
		}
		newer := level(cpuSVN, teeTCBSVN[:], pceSVN+1, string(collateral.UpToDate), nil)
		newer["tcbDate"] = p.Replaced.UTC().Format(time.RFC3339)
		levels := tcb["tcbLevels"].([]any) //nolint:forcetypeassert // made above
		tcb["tcbLevels"] = []any{newer, own, levels[1]}
	}
	real := RealQE()
	qe = dates(map[string]any{
		"id": "TD_QE", "version": 2, "miscselect": "00000000", "miscselectMask": "FFFFFFFF",
		"attributes": "11000000000000000000000000000000", "attributesMask": "FBFFFFFFFFFFFFFF0000000000000000",
		"mrsigner": hex.EncodeToString(real.MRSigner[:]), "isvprodid": real.ProdID,
		"tcbLevels": []any{isv(int(real.SVN), status(p.QE)), isv(2, string(collateral.OutOfDate))},
	})
	return tcb, qe
}

// signedDocument is {"<name>":{...},"signature":"<hex>"}; the signature covers the
// bytes of the inner object.
func signedDocument(name string, document map[string]any, key *ecdsa.PrivateKey) (string, error) {
	inner, err := json.Marshal(document)
	if err != nil {
		return "", err
	}
	signature, err := rawSignature(key, inner)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`{%q:%s,"signature":"%x"}`, name, inner, signature), nil
}

func crl(issuer *x509.Certificate, key *ecdsa.PrivateKey, from time.Time, life time.Duration, serials []*big.Int) ([]byte, error) {
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: from, NextUpdate: from.Add(life), SignatureAlgorithm: x509.ECDSAWithSHA256}
	for _, serial := range serials {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: serial, RevocationTime: from})
	}
	return x509.CreateRevocationList(nil, list, issuer, steady{key})
}

// CollateralSource always has the collateral of this Cloud at the time of now, all
// well: for tests of others than the collateral.
func (c *Cloud) CollateralSource(now func() time.Time) collateral.Source {
	return source{c, now}
}

type source struct {
	cloud *Cloud
	now   func() time.Time
}

func (s source) Bundle(context.Context, string) (collateral.Bundle, error) {
	return s.cloud.Collateral(s.now(), Posture{})
}
