// Package collateral is Intel's signed judgement of its own machines: TCB info
// and quoting-enclave identity with their levels, and the lists of revoked
// certificates. It reads them, checks every signature, finds them, and says what
// they mean for one quote.
//
//	Source ──▶ Bundle ──Open(root)──▶ Set ──Fresh(now)──▶ Set.Evaluate(machine)
//	PCCS, Files                       signatures, chains   levels, pure
//
// Nothing here trusts where a Bundle came from. A signature is judged once per
// Bundle, since it cannot change; dates and revocations are judged at each use.
package collateral
