// Package admission decides whether a Boot may hold a Slot, and then gives the Boot the credentials
// of that Slot.
//
//	Boot                         coordinator                     store, Consul
//	 │ Challenge(app, instance, key) │ Slot by the bound instance
//	 │ ◄── nonce, own evidence ──────│ nothing is stored; one quote serves all waiting callers
//	 │ Admit(statement, evidence) ──►│ nonce, statement, channel: cheap
//	 │                               │ a place among the verifications (pool)
//	 │                               │ verify: genuine?  appraise: allowed?
//	 │                               │ one transaction ──────────► spent nonce, policy index, Term index,
//	 │                               │                             Boot lease, Admission, decision
//	 │                               │ tokens ───────────────────► Consul ACL, accessors recorded
//	 │ ◄── SVID, tokens, secrets ────│
//
// The Boot lease is the lock on lease/boots/<slot>. It ensures one live Boot per Slot across all
// coordinators (IDN-03). The coordinator that admits a Boot keeps its lease: it holds the lock with
// its one session for all leases that it keeps. KeepLeases then decides about each lease (judge):
//
//   - While the keeper receives the Boot's reports, it writes nothing.
//   - If the Boot is silent, the keeper offers the lease to the other coordinators and then gives
//     it up.
//   - If the keeper ends, the coordinators that receive the Boot's reports take the lease.
//
// A planned restart hands the lock over in its transaction. Farewell, Evict and the retirement of a
// Slot give the lock up at once. Guard runs under the leader's lease and evicts each Boot that the
// policy does not allow any more.
//
// The lease is in these files:
//
//	lease.go           the record and its lock
//	lease_session.go   the session that holds the leases of one keeper
//	lease_judge.go     the decision of one coordinator about one lease
//	lease_due.go       the leases with a due step, and how long each is unchanged
//	lease_commit.go    the transactions of the steps
//	lease_keeper.go    the loop of KeepLeases
//
// Before the evidence is verified, the caller only receives ADMISSION_REJECTED; the precise code
// goes to the log and to refusals/<slot>. Decisions about genuine evidence are stored in
// decisions/<slot>. The holders of the Slot are one hash chain, and the refused Boots another, so
// that a flood of refusals does not displace the holders.
package admission
