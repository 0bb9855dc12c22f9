// Package specvalidate judges whether a group's spec may come into force, beyond what the
// document alone tells core/group: that its compose text fixes what runs, and that it
// does not ask for CVMs of the coordinators' own app.
//
//	server (Apply, Plan) ──┐
//	reconcile (plain KV) ──┼─► Vet: one judgement, whichever way a spec came
//	operate (each call)  ──┘
package specvalidate
