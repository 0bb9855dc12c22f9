// Package secrets knows which epoch of each secret is in force, gives out the
// values of those epochs, and raises them.
//
//	group spec ── secret "x" { rotate = "720h" }      control/rotate/<group>/x
//	        │ declared                                        │ asked for
//	        ▼                                                 ▼
//	   Rotator (leader) ── epoch + 1, fenced ──► secrets/<group>/x   no value
//	                                                          │ epoch
//	   Service (every coordinator) ◄──────────────────────────┘
//	        │ value = derive(group, name, epoch) inside this CVM
//	        ▼
//	   credentials of an admission or a renewal ──► file in memory of the workload
//
// The coordinators' gossip key has epochs too; since all of them must have a key before any
// sends with it, its rotation goes through the steps of store.RotationStep, each
// recorded before it is carried out and repeatable.
package secrets
