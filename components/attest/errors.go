package attest

import (
	"cadre.dev/attest/internal/refusal"
	"cadre.dev/core/policy"
)

// The codes that this package returns. They are the threat model's; core/policy adds those of
// Appraise.
const (
	// CodeQuoteMalformed: the quote, its length fields or its framing cannot be read.
	CodeQuoteMalformed policy.Code = "QUOTE_MALFORMED"
	// CodeUnsupportedVersion: a quote, event or MRCONFIGID version that this
	// package does not know. Nothing is guessed.
	CodeUnsupportedVersion policy.Code = "UNSUPPORTED_VERSION"
	// CodeTooLarge: a part of the Evidence is longer than its bound.
	CodeTooLarge policy.Code = "REQUEST_TOO_LARGE"
	// CodeTEETypeForbidden: the quote is genuine or not, but not of a TDX guest.
	CodeTEETypeForbidden policy.Code = "TEE_TYPE_FORBIDDEN"
	// CodeQuoteInvalid: a signature, certificate or root does not verify.
	CodeQuoteInvalid policy.Code = "QUOTE_INVALID"
	// CodeQEIdentityInvalid: the quoting enclave is not Intel's TDX one, or a debug one.
	CodeQEIdentityInvalid policy.Code = "QE_IDENTITY_INVALID"
	// CodeTDDebug: a bit of the TUD byte is set, so the host can read the guest.
	CodeTDDebug policy.Code = "TD_DEBUG"
	// CodeTDAttributesForbidden: TD or SEAM attributes, XFAM, or a configuration
	// or owner id outside the written table.
	CodeTDAttributesForbidden policy.Code = "TD_ATTRIBUTES_FORBIDDEN"
	// CodeReportDataMismatch: the quote commits to something else.
	CodeReportDataMismatch policy.Code = "REPORT_DATA_MISMATCH"
	// CodeEventLogInvalid: the log or the app-compose preimage does not replay to
	// the quoted registers.
	CodeEventLogInvalid policy.Code = "EVENT_LOG_INVALID"
	// CodeEventLogAmbiguous: the log replays, but has more than one reading.
	CodeEventLogAmbiguous policy.Code = "EVENT_LOG_AMBIGUOUS"
	// CodeStatementNoncanonical: a statement is not in its one encoding.
	CodeStatementNoncanonical policy.Code = "STATEMENT_NONCANONICAL"
	// CodePolicyInvalid: a trust file that must not be loaded.
	CodePolicyInvalid policy.Code = "POLICY_INVALID"
)

// Error is why Evidence was refused: a stable Code and a Message without
// secrets. Retryable reports that the same Evidence may be accepted later.
type Error = refusal.Error

func refuse(code policy.Code, format string, args ...any) *Error {
	return refusal.New(code, format, args...)
}
