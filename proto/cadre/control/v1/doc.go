// Package controlv1 is the wire contract of the control session between an admitted
// agent and each coordinator. Both ends serve:
//
//	agent  ── reports, asks for desired state, peers, fresh credentials ──►  coordinator
//	agent  ◄── "something changed, come and get it" ──────────────────────  coordinator
//
// Orders are read by the agent and never pushed to it. All but this page is generated
// from control.proto.
package controlv1
