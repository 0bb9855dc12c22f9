// Package admission decides whether a Boot may be a Slot, and gives it the
// credentials of that Slot if so.
//
//	Boot                         coordinator                     store, Consul
//	 │ Challenge(app, instance, key) │ Slot by the bound instance
//	 │ ◄── nonce, own evidence ──────│ nothing is stored; one quote serves all who wait
//	 │ Admit(statement, evidence) ──►│ nonce, statement, channel: cheap
//	 │                               │ a place among the verifications (pool)
//	 │                               │ verify: genuine?  appraise: allowed?
//	 │                               │ one transaction ──────────► spent nonce, policy index, Term index,
//	 │                               │                             Boot lease, Admission, decision
//	 │                               │ tokens ───────────────────► Consul ACL, accessors recorded
//	 │ ◄── SVID, tokens, secrets ────│
//
// The Boot lease is the lock on lease/boots/<slot>: one live Boot per Slot across all
// coordinators (IDN-03). The coordinator that admits a Boot holds the lock with its own
// session, the one of all leases that it keeps, and KeepLeases decides what becomes of it
// (judge): while its keeper hears the Boot nothing is written; one that it does not hear
// is offered to the others, then given up; what a keeper held that ended is taken again
// by those who hear the Boots. A planned restart hands the lock over in the transaction;
// Farewell, Evict and a Slot's retirement give it up at once. Guard runs under the
// leader's lease and evicts whom the policy does not let stay.
//
// The files that keep it:
//
//	lease.go           the record and its lock
//	lease_session.go   the session that holds all that are kept here
//	lease_judge.go     what one coordinator does about one lease, by what it knows
//	lease_due.go       about which ones something is due, and how long each was as it is
//	lease_commit.go    the transactions that do it
//	lease_keeper.go    KeepLeases, which goes round
//
// Before the evidence is verified a refusal says ADMISSION_REJECTED and no more;
// the precise code goes to the log and to refusals/<slot>. What was decided about
// genuine evidence is kept in decisions/<slot>: who was the Slot in one hash chain,
// who was refused in another, so that a flood of refusals makes nobody forgotten.
package admission
