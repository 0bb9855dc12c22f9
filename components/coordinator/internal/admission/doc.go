// Package admission decides whether a Boot may be a Slot, and gives it the
// credentials of that Slot if so.
//
//	Boot                         coordinator                     store, Consul
//	 │ Challenge(app, instance, key) │ Slot by the bound instance
//	 │ ◄── nonce, own evidence ──────│ nothing is stored
//	 │ Admit(statement, evidence) ──►│ nonce, statement, channel
//	 │                               │ verify: genuine?  appraise: allowed?
//	 │                               │ one transaction ──────────► spent nonce, policy index, admission
//	 │                               │ tokens ───────────────────► Consul ACL, accessors recorded
//	 │ ◄── SVID, tokens, secrets ────│
//
// Before the evidence is verified a refusal says ADMISSION_REJECTED and no
// more; the precise code goes to the log and to refusals/<slot>.
package admission
