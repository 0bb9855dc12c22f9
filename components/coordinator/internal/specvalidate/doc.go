// Package specvalidate decides whether a group's spec may come into force. It makes the checks that
// core/group cannot make on the document alone: the compose text must fix the running software, and
// the spec must not ask for CVMs of the coordinators' own app.
//
//	server (Apply, Plan) ──┐
//	reconcile (plain KV) ──┼─► Validator: one judgement, whichever way a spec came
//	operate (each call)  ──┘
package specvalidate
