// Package collateral handles Intel's signed judgement of its own machines: TCB info and
// quoting-enclave identity with their levels, and the lists of revoked certificates. The package
// finds and parses them, checks every signature, and applies them to one quote.
//
//	Source ──▶ Bundle ──Open(root)──▶ Set ──Fresh(now)──▶ Set.Evaluate(machine)
//	PCCS, Files                       signatures, chains   levels, pure
//
// The source of a Bundle is never trusted. A signature is checked once per Bundle, since it cannot
// change; dates and revocations are checked at each use.
package collateral
