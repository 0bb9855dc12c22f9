// Package controlv1 is the wire contract of the control session between an admitted
// agent and each coordinator. Both ends serve:
//
//	agent        ── reports; fetches desired state and the peer map ──►  coordinator
//	agent        ◄── "come and get it"; how are your Links? ───────────  coordinator
//	coordinator  ── which epochs of the keys do you have? ────────────►  coordinator
//
// Orders are read by the agent and never pushed to it. All but this page is generated
// from control.proto.
package controlv1
