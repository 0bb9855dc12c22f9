package attest

import (
	"context"
	"net/url"
	"testing"
	"time"

	tdxtest "github.com/google/go-tdx-guest/testing"
	"github.com/google/go-tdx-guest/testing/testdata"

	"cadre.dev/attest/collateral"
	"cadre.dev/core/policy"
)

// intelBundle is collateral that Intel signed, of the machine of the library's
// sample quote, 2023.
func intelBundle(t testing.TB) collateral.Bundle {
	t.Helper()
	chain := func(header map[string][]string, name string) string {
		text, err := url.QueryUnescape(header[name][0])
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	return collateral.Bundle{
		Version: 1, TCBInfo: string(testdata.TcbInfoBody), QEIdentity: string(testdata.QeIdentityBody),
		TCBInfoChain:    chain(tdxtest.TcbInfoHeader, "Tcb-Info-Issuer-Chain"),
		QEIdentityChain: chain(tdxtest.QeIdentityHeader, "Sgx-Enclave-Identity-Issuer-Chain"),
		PCKCRLChain:     chain(tdxtest.PckCrlHeader, "Sgx-Pck-Crl-Issuer-Chain"),
		PCKCRL:          testdata.PckCrlBody, RootCRL: testdata.RootCrlBody,
	}
}

func TestIntelsOwnCollateralIsRead(t *testing.T) {
	set, err := collateral.Open(intelBundle(t), mustIntel(t))
	if err != nil {
		t.Fatal(err)
	}
	if set.FMSPC() != "50806f000000" || set.Mark().TCBEvaluation != 15 {
		t.Errorf("FMSPC %s, mark %+v", set.FMSPC(), set.Mark())
	}
	quote, err := parseQuote(testdata.RawQuote[:4935]) // text of the library follows
	if err != nil {
		t.Fatal(err)
	}
	for day, want := range map[string]policy.Code{
		// The sample's machine is older: TDX component 2 is 4, every level asks for 5.
		"2023-07-01": policy.CodeTCBOutOfDate,
		"2023-07-09": policy.CodeCollateralExpired,
		"2023-05-01": policy.CodeClockUntrusted,
	} {
		v, err := NewVerifier(VerifierConfig{Now: fixedNow(t, day), Collateral: collateral.Static{"50806f000000": intelBundle(t)}})
		if err != nil {
			t.Fatal(err)
		}
		chain, err := v.verifySignatures(quote)
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.evaluateTCB(context.Background(), quote, chain, nil)
		wantCode(t, day, err, want)
		m := machineOf(quote, chain)
		m.TDX[2], m.SGX, m.PCESVN = 5, [16]uint8{5, 5, 2, 2, 3, 1, 0, 3}, 11
		tcb, err := set.Evaluate(m)
		if err != nil || tcb.Status != "UpToDate" || !tcb.ValidUntil.Equal(time.Date(2023, 7, 8, 7, 24, 59, 0, time.UTC)) {
			t.Errorf("a machine with the required fields: %+v, %v", tcb, err)
		}
		m.PCESVN = 5
		if tcb, err := set.Evaluate(m); err != nil || tcb.Status != "OutOfDate" {
			t.Errorf("a machine with an older PCE: %+v, %v", tcb, err)
		}
	}
}

// The constant distribution point equals the one in Intel's root.
func TestIntelsRootNamesItsOwnList(t *testing.T) {
	if got := mustIntel(t).CRLDistributionPoints; len(got) != 1 || got[0] != collateral.IntelRootCRL {
		t.Errorf("distribution points %v", got)
	}
}
