// Package secrets manages the epoch in force of each secret, delivers the values of those epochs,
// and raises them.
//
//	group spec ── secret "x" { rotate = "720h" }      control/rotate/<group>/x
//	        │ declared                                        │ requested
//	        ▼                                                 ▼
//	   Rotator (leader) ── epoch + 1, fenced ──► secrets/<group>/x   no value
//	                                                          │ epoch
//	   Service (every coordinator) ◄──────────────────────────┘
//	        │ value = derive(group, name, epoch) inside this CVM
//	        ▼
//	   credentials of an admission or a renewal ──► file in memory of the workload
//
// The coordinators' gossip key has epochs too. All of them must have a key before any sends with
// it, so its rotation goes through the steps of store.RotationStep. Each step is recorded before it
// is carried out, and repeatable.
package secrets
