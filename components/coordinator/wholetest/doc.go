// Package wholetest runs a whole coordinator for tests of its API's callers: real Consul, real
// overlay and gateway, real admission, with simulated hardware and a platform whose CVMs are agents
// in this process.
//
//	caller ──► gateway ──► coordinator ──► Consul (child process)
//	                           │  ▲
//	                 Platform ◄┘  └── agents: admitted by evidence, report that all is well
//
// Only tests import it.
package wholetest
