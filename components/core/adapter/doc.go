// Package adapter is the contract between an agent and an adapter: a program in the CVM that knows a
// workload for which Cadre has no driver of its own (`workload "custom"`).
//
//	GET    /v1/member    Member                       the state of the member now; a member that is down is a Member, too
//	POST   /v1/transfer  TransferRequest, Transferred leadership moves off this member
//	POST   /v1/drain     {}                           the member prepares for its stop
//	DELETE /v1/drain     {}                           the member returns to service
//	POST   /v1/set       SetRequest                   one change of the workload's set of members
//
// Status 409 is busy: another change is in progress, and the agent observes before it retries. Status
// 422 is unsafe: the workload refuses, and the call is never forced. Every other failure is transient:
// the effect is unknown, and the agent observes before it repeats the call. The body of a failure is
// an Error. All calls may be repeated.
//
// A command (`exec_service`) gets the same JSON on its standard input and writes its answer to a
// descriptor. The agent does not trust an adapter: texts are bounded before they are read, unknown
// fields are refused, and a Member is checked as a whole.
package adapter
