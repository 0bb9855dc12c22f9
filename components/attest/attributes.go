package attest

import (
	"encoding/binary"
	"encoding/hex"
	"slices"

	pb "github.com/google/go-tdx-guest/proto/tdx"
)

// TD attributes, bit by bit. The lowest byte is TUD ("TD under debug"): every
// bit of it lets the host look into or steer the guest.
const (
	attrTUD = uint64(0xff)
	// attrLASS and attrPKS only let the guest kernel protect itself better.
	attrLASS = uint64(1) << 27
	// attrSeptVEDisable stops the host from injecting #VE by unmapping guest pages.
	attrSeptVEDisable = uint64(1) << 28
	attrPKS           = uint64(1) << 30
	// Everything else is refused: ICSSD and reserved bits, MIGRATABLE (29: the host
	// may move the guest to a machine that we have not judged), KL (31), TPA (62),
	// PERFMON (63: performance counters, a side channel).
	attrRequired = attrSeptVEDisable
	attrAllowed  = attrRequired | attrLASS | attrPKS
)

// XFAM, the extended CPU features that the guest may use: x87 and SSE are fixed on; AVX, AVX-512,
// PKRU, CET and AMX are data state only. Rejected: PT (8) and LBR (15), which record the guest's
// branches, PASID (10), HDC (13), UINTR (14), HWP (16), and all reserved bits.
const (
	xfamRequired = uint64(1)<<0 | 1<<1
	xfamAllowed  = xfamRequired | 1<<2 | 1<<5 | 1<<6 | 1<<7 | 1<<9 | 1<<11 | 1<<12 | 1<<17 | 1<<18
)

// The identity of Intel's quoting enclave for TDX. The attributes are compared
// under Intel's own mask, which leaves out MODE64BIT and XFRM: INIT and
// PROVISIONKEY set, DEBUG and the rest clear. ISVSVN is a TCB level and is not
// judged without collateral.
const (
	qeVendorID  = "939a7233f79c4ca9940a0db3957f0607"
	qeMRSigner  = "dc9e2a7c6f948f17474e34a7fc43ed030f7c1563f1babddf6340c82e0e54a8c5"
	qeProdID    = 2
	qeAttribute = uint64(0x11)
	qeAttrMask  = ^uint64(0x04)
)

func checkQE(q *tdQuote) error {
	if id := hex.EncodeToString(q.GetHeader().GetQeVendorId()); id != qeVendorID {
		return refuse(CodeQEIdentityInvalid, "QE vendor id %s is not Intel's", id)
	}
	qe := q.GetSignedData().GetCertificationData().GetQeReportCertificationData().GetQeReport()
	if signer := hex.EncodeToString(qe.GetMrSigner()); signer != qeMRSigner {
		return refuse(CodeQEIdentityInvalid, "QE signer %s is not Intel's", signer)
	}
	if qe.GetIsvProdId() != qeProdID {
		return refuse(CodeQEIdentityInvalid, "QE product id %d, that of TDX is %d", qe.GetIsvProdId(), qeProdID)
	}
	if got := binary.LittleEndian.Uint64(qe.GetAttributes()) & qeAttrMask; got != qeAttribute {
		return refuse(CodeQEIdentityInvalid, "QE attributes %#x, must be %#x (a debug enclave has bit 1)", got, qeAttribute)
	}
	if qe.GetMiscSelect() != 0 {
		return refuse(CodeQEIdentityInvalid, "QE MISCSELECT %#x, must be zero", qe.GetMiscSelect())
	}
	return nil
}

func checkAttributes(body *pb.TDQuoteBody) error {
	attr := binary.LittleEndian.Uint64(body.GetTdAttributes())
	if tud := attr & attrTUD; tud != 0 {
		return refuse(CodeTDDebug, "TD attributes have debug bits %#02x set", tud)
	}
	if attr&attrRequired != attrRequired {
		return refuse(CodeTDAttributesForbidden, "TD attributes %#x do not set SEPT_VE_DISABLE", attr)
	}
	if extra := attr &^ attrAllowed; extra != 0 {
		return refuse(CodeTDAttributesForbidden, "TD attributes set bits %#x that are not allowed", extra)
	}
	xfam := binary.LittleEndian.Uint64(body.GetXfam())
	if xfam&xfamRequired != xfamRequired {
		return refuse(CodeTDAttributesForbidden, "XFAM %#x does not set x87 and SSE", xfam)
	}
	if extra := xfam &^ xfamAllowed; extra != 0 {
		return refuse(CodeTDAttributesForbidden, "XFAM sets bits %#x that are not allowed", extra)
	}
	// Intel's own module has a zero signer; dstack sets no owner.
	for _, zero := range []struct {
		name  string
		value []byte
	}{
		{"SEAM attributes", body.GetSeamAttributes()},
		{"SEAM signer", body.GetMrSignerSeam()},
		{"MROWNER", body.GetMrOwner()},
		{"MROWNERCONFIG", body.GetMrOwnerConfig()},
	} {
		if !isZero(zero.value) {
			return refuse(CodeTDAttributesForbidden, "%s is %x, must be zero", zero.name, zero.value)
		}
	}
	return nil
}

func isZero(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c != 0 })
}
