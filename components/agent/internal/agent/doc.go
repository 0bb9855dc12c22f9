// Package agent joins the parts of cadre-agent:
//
//	guest agent ─► admit ─► overlay Node ─► control sessions ─┬─► desired state
//	                  │                                       │      │
//	                  ▼                                       ▼      ▼
//	              Consul proxy (Consul),                            report ◄─ lifecycle,
//	              mesh files                                          health, member
//
// Nothing disruptive starts without an order; a lost coordinator changes nothing.
package agent
